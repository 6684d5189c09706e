"""Which names of Python's library and of well-known packages fall under which rule."""

from __future__ import annotations

from typing import Final

_NAMES: Final = {
    "clock": """
        time.time time.time_ns time.monotonic time.monotonic_ns time.perf_counter time.perf_counter_ns
        time.process_time time.process_time_ns time.thread_time time.localtime time.gmtime time.ctime
        datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today
        django.utils.timezone.now pendulum.now pendulum.today arrow.now arrow.utcnow
    """,
    "random": """
        os.urandom uuid.uuid1 uuid.uuid4 uuid.uuid6 uuid.uuid7 uuid.getnode
        random.SystemRandom random.betavariate random.binomialvariate random.choice random.choices random.expovariate
        random.gammavariate random.gauss random.getrandbits random.getstate random.lognormvariate random.normalvariate
        random.paretovariate random.randbytes random.randint random.random random.randrange random.sample random.seed
        random.setstate random.shuffle random.triangular random.uniform random.vonmisesvariate random.weibullvariate
        secrets.choice secrets.randbelow secrets.randbits secrets.token_bytes secrets.token_hex secrets.token_urlsafe
        secrets.SystemRandom
    """,
    "io": """
        builtins.open builtins.input io.open io.open_code codecs.open os.open os.popen os.system os.fdopen os.fork
        os.listdir os.scandir os.walk os.mkdir os.makedirs os.remove os.removedirs os.rename os.renames os.replace
        os.rmdir os.stat os.lstat os.unlink os.utime os.chmod os.chown os.link os.symlink os.truncate os.access
        os.read os.write os.kill os.posix_spawn os.startfile
        os.path.exists os.path.isfile os.path.isdir os.path.islink os.path.getsize os.path.getmtime
        glob.glob glob.iglob fileinput.input
        subprocess.run subprocess.Popen subprocess.call subprocess.check_call subprocess.check_output
        subprocess.getoutput subprocess.getstatusoutput
        socket.socket socket.create_connection socket.create_server socket.getaddrinfo socket.gethostbyname
        urllib.request.urlopen urllib.request.urlretrieve urllib.request.build_opener
        http.client.HTTPConnection http.client.HTTPSConnection smtplib.SMTP smtplib.SMTP_SSL ftplib.FTP imaplib.IMAP4
        sqlite3.connect dbm.open shelve.open
        requests.get requests.post requests.put requests.patch requests.delete requests.head requests.options
        requests.request requests.Session requests.session
        httpx.get httpx.post httpx.put httpx.patch httpx.delete httpx.head httpx.options httpx.request httpx.stream
        httpx.Client httpx.AsyncClient
        urllib3.PoolManager urllib3.request aiohttp.ClientSession aiohttp.request websockets.connect
        psycopg.connect psycopg.AsyncConnection.connect psycopg2.connect asyncpg.connect asyncpg.create_pool
        pymysql.connect sqlalchemy.create_engine sqlalchemy.ext.asyncio.create_async_engine
        redis.Redis redis.from_url redis.asyncio.Redis redis.asyncio.from_url pymongo.MongoClient
        boto3.client boto3.resource boto3.Session openai.OpenAI openai.AsyncOpenAI
        anthropic.Anthropic anthropic.AsyncAnthropic aiofiles.open anyio.open_file anyio.run_process anyio.connect_tcp
        asyncio.open_connection asyncio.open_unix_connection asyncio.start_server asyncio.start_unix_server
        asyncio.create_subprocess_exec asyncio.create_subprocess_shell
    """,
    "environment": """
        os.getenv os.getenvb os.environ os.environb os.getpid os.getppid os.getcwd os.cpu_count os.getlogin os.uname
        os.putenv os.unsetenv sys.argv
        socket.gethostname platform.node platform.platform platform.system platform.machine platform.python_version
        locale.getlocale pathlib.Path.cwd pathlib.Path.home getpass.getuser
    """,
    "identity": "builtins.id builtins.hash",
    "sleep": "time.sleep gevent.sleep eventlet.sleep signal.pause signal.sigwait",
    "thread": """
        threading.Thread threading.Timer _thread.start_new_thread
        concurrent.futures.ThreadPoolExecutor concurrent.futures.ProcessPoolExecutor
        concurrent.futures.InterpreterPoolExecutor concurrent.futures.thread.ThreadPoolExecutor
        multiprocessing.Process multiprocessing.Pool multiprocessing.Queue multiprocessing.Manager
        asyncio.run asyncio.Runner asyncio.new_event_loop asyncio.to_thread asyncio.run_coroutine_threadsafe
        anyio.run anyio.to_thread.run_sync anyio.to_process.run_sync anyio.from_thread.run trio.run
        anyio.from_thread.start_blocking_portal asgiref.sync.sync_to_async asgiref.sync.async_to_sync
    """,
}
_PREFIXES: Final = {
    "random": ("numpy.random.",),
    "io": ("shutil.", "tempfile.", "boto3.", "paramiko."),
}
"""Everything below these."""
NAMES: Final = {name: rule for rule, names in _NAMES.items() for name in names.split()}
"""Rule by dotted name."""
ARGUMENTLESS: Final = frozenset({"time.localtime", "time.gmtime", "time.ctime"})
"""With an argument these convert it."""
MADE_OF: Final = {
    **{name: "io" for name in NAMES if NAMES[name] == "io"},
    "random.Random": "random",
    "random.SystemRandom": "random",
    "secrets.SystemRandom": "random",
}
"""What makes an object whose methods fall under a rule; a ``Random`` with a seed does not."""
_PATH_IO = """
    read_text read_bytes write_text write_bytes open touch mkdir rmdir unlink rename replace exists is_file is_dir stat
    lstat iterdir glob rglob chmod symlink_to hardlink_to samefile owner group resolve walk
"""
PATH_IO: Final = frozenset(_PATH_IO.split())
"""Methods of a ``Path`` that look at or change the disk."""
PATHS: Final = frozenset({"pathlib.Path", "pathlib.PosixPath", "pathlib.WindowsPath", "anyio.Path"})
READS_PATH: Final = frozenset({"read_text", "read_bytes", "write_text", "write_bytes"})
"""Methods that only paths have, whatever the object is known to be."""
IN_LOOP: Final = frozenset({"run_in_executor", "run_until_complete"})
"""Methods of an event loop that a run's own does not have."""


def rule_for(dotted: str) -> str | None:
    """Return the name of the rule that a dotted name falls under, if one does.

    >>> rule_for("time.time"), rule_for("numpy.random.rand"), rule_for("math.sqrt")
    ('clock', 'random', None)
    """
    found = NAMES.get(dotted)
    if found is not None:
        return found
    return next((rule for rule, prefixes in _PREFIXES.items() if dotted.startswith(prefixes)), None)


__all__ = ["ARGUMENTLESS", "IN_LOOP", "MADE_OF", "PATHS", "PATH_IO", "READS_PATH", "rule_for"]
