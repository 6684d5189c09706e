"""Protections of the dashboard."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_GUARD = "web/guarding.py"
_SECURITY = "web/test_security.py::test_"
_MANY, _FLEET = "web/test_many.py::test_", "web/test_fleet.py::test_"

_MARKED = "web/test_redaction.py::test_what_types_mark_is_shown_nowhere_though_their_code_is_not_here[sqlite]"

WEB = [
    Mutation(
        "no page reaches the dashboard under a name of its own",
        _GUARD,
        "if host is None or not self._settings.answers_to(host):",
        "if host is None:",
        _SECURITY + "no_page_reaches_it_under_a_name_of_its_own[sqlite]",
    ),
    Mutation(
        "who knows nobody answers this machine only",
        _GUARD,
        "if not is_near or any(",
        "if any(",
        _SECURITY + "without_a_way_to_know_who_asks_only_this_machine_is_answered[sqlite]",
    ),
    Mutation(
        "what a proxy has passed on is not of this machine",
        _GUARD,
        "any(name in request.headers for name in _FORWARDED)",
        "False",
        _SECURITY + "without_a_way_to_know_who_asks_only_this_machine_is_answered[sqlite]",
    ),
    Mutation(
        "a change brings the secret of a page",
        _GUARD,
        "if not by_bearer and (told is None or not same(told, csrf)):",
        "if False:",
        _SECURITY + "changes_are_asked_for_by_its_own_pages_alone[sqlite]",
    ),
    Mutation(
        "a change comes from no other site",
        _GUARD,
        "if elsewhere or site not in",
        "if site not in",
        _SECURITY + "changes_are_asked_for_by_its_own_pages_alone[sqlite]",
    ),
    Mutation(
        "who may only look changes nothing",
        _GUARD,
        "if self._settings.read_only or (visitor is not None and visitor.read_only):",
        "if self._settings.read_only:",
        _SECURITY + "a_dashboard_that_is_read_only_changes_nothing[sqlite]",
    ),
    Mutation(
        "nobody unknown is answered",
        _GUARD,
        "if visitor is None and not self._doorman.is_public(request):",
        "if False:",
        _SECURITY + "a_token_is_asked_for_and_its_session_tells_who[sqlite]",
    ),
    Mutation(
        "a session is signed",
        "web/visitors.py",
        "if not body or not same(signature, self._signed(body)):",
        "if not body:",
        _SECURITY + "a_token_is_asked_for_and_its_session_tells_who[sqlite]",
    ),
    Mutation(
        "a login leads nowhere else",
        "web/app.py",
        "return path if good and not parts.netloc and not parts.scheme and path.isascii() else",
        "return path if path else",
        _SECURITY + "a_token_is_asked_for_and_its_session_tells_who[sqlite]",
    ),
    Mutation(
        "what runs hold is no markup",
        "web/rendering.py",
        "autoescape=True",
        "autoescape=False",
        _SECURITY + "nothing_that_runs_hold_is_markup[sqlite]",
    ),
    Mutation(
        "a download is no page",
        "web/artifacts.py",
        'f"attachment; filename',
        'f"inline; filename',
        _SECURITY + "downloads_are_never_shown[sqlite]",
    ),
    Mutation(
        "what cannot be looked through is not given",
        "web/artifacts.py",
        "if reader.redaction:",
        "if False:",
        "web/test_redaction.py::test_secrets_are_in_no_page_no_twin_and_no_download[sqlite]",
    ),
    Mutation(
        "what is redacted is left out of recorded arguments",
        "model/redaction.py",
        "return [[key, self.shown(held, *path, _name(key))] for key, held in pairs]",
        "return pairs",
        "web/test_redaction.py::test_it_is_found_in_every_form_in_which_values_are_stored",
    ),
    Mutation(
        "what types mark is not shown",
        "shown.py",
        "json.loads(concealed(payload))",
        "json.loads(payload)",
        _MARKED,
    ),
    Mutation(
        "what types mark is in no download",
        "web/artifacts.py",
        "concealed(value)",
        "value",
        _MARKED,
    ),
    Mutation(
        "what types mark is in no head of long arguments",
        "model/arguments.py",
        "head = concealed(data)[:_HEAD]",
        "head = data[:_HEAD]",
        _MARKED,
    ),
    Mutation(
        "what a class marks is marked where nothing is annotated",
        "model/tagged.py",
        "for name in marked.intersection(packed):",
        "for name in ():",
        "model/test_secrecy.py::test_what_is_marked_comes_back_as_it_was_and_is_not_shown",
    ),
    Mutation(
        "a secret default stands in no form",
        "web/fields.py",
        "left_out = _TELLING if",
        "left_out = frozenset() if",
        _MARKED,
    ),
    Mutation(
        "who changes something from the dashboard is noted",
        "web/reading.py",
        'None if visitor is None else Author("dashboard", visitor.name)',
        "None",
        "web/test_deeds.py::test_who_did_it_is_kept_and_shown[sqlite]",
    ),
    Mutation(
        "who changes something from the command line is noted",
        "cli/opening.py",
        "operations.author = author()",
        "operations.author = None",
        "web/test_deeds.py::test_who_did_it_is_kept_and_shown[sqlite]",
    ),
    Mutation(
        "who removes a schedule is noted with it",
        "operations/scheduling.py",
        "await self._write(change._replace(deed=deed))",
        "await self._write(change)",
        "web/test_deeds.py::test_who_did_it_is_kept_and_shown[sqlite]",
    ),
    Mutation(
        "who sends a signal is kept with it",
        "operations/signalling.py",
        "author=operations.by",
        "author=None",
        "web/test_deeds.py::test_who_did_it_is_kept_and_shown[sqlite]",
    ),
    Mutation(
        "what is done to many runs stops when it is asked to",
        "operations/bulk.py",
        "if watch is not None and not watch(tally):",
        "if watch is not None and watch(tally) is None:",
        _MANY + "what_is_stopped_leaves_the_rest_alone[sqlite]",
    ),
    Mutation(
        "what is created after many runs were shown is left alone",
        "web/many.py",
        'query = {**asking.query, "created_before": until if before is None else min(before, until)}',
        "query = dict(asking.query)",
        _MANY + "what_is_confirmed_is_done_and_nothing_else[sqlite]",
    ),
    Mutation(
        "no more runs are dealt with than were confirmed",
        "web/many.py",
        "Runs(order.operations, where, most=most))",
        "Runs(order.operations, where, most=None))",
        _MANY + "all_of_it_by_a_program_bounded_and_told[sqlite]",
    ),
    Mutation(
        "nothing is done to all runs there are",
        "web/many.py",
        "if not chosen:",
        "if False:",
        _MANY + "all_of_it_by_a_program_bounded_and_told[sqlite]",
    ),
    Mutation(
        "a dashboard of one namespace shows no other",
        "web/spaces.py",
        "if path.startswith(PREFIX) and not self._reader.is_fixed:",
        "if path.startswith(PREFIX):",
        _FLEET + "each_namespace_has_addresses_of_its_own[sqlite]",
    ),
    Mutation(
        "a dashboard of one namespace tells nothing of the others",
        "web/trouble.py",
        "shown = diagnose(replace(report.condition, contents=None)) if reader.is_fixed else report",
        "shown = report",
        _FLEET + "what_is_in_trouble_is_told_with_what_to_do[sqlite]",
    ),
    Mutation(
        "a form that is sent twice starts one run",
        "web/start.py",
        'options.setdefault("run_id", typed["new_id"] or None)',
        "pass",
        "web/test_start.py::test_a_run_is_started_by_a_form_with_all_kinds_of_fields[sqlite]",
    ),
    Mutation(
        "what is redacted of tags is left out of schedules",
        "describe.py",
        'redaction().shown(policy.tags or {}, "tags")',
        "policy.tags or {}",
        "web/test_redaction.py::test_secrets_are_in_no_page_no_twin_and_no_download[sqlite]",
    ),
    Mutation(
        "a store that was replaced is not read on",
        "web/reading.py",
        "                    self._look(store)\n",
        "",
        "web/test_pages.py::test_a_store_that_is_away_is_said_to_be_and_found_again[sqlite]",
    ),
]

__all__ = ["WEB"]
