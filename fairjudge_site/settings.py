"""Every setting of the site, read from the environment; `.env.example` lists the variables."""

import os
import re
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import dj_database_url
from csp.constants import NONE, SELF
from kombu import Exchange, Queue

from fairjudge_site.environment import TRACED_TO, Environment, SettingError, made

# A checkout has its templates, static files and data in itself. What pip installs has the first two
# in this package, where Django looks by itself, and the data in the folder that one works in.
BASE_DIR = Path(__file__).resolve().parent.parent
CHECKOUT = (BASE_DIR / "manage.py").is_file()
environment = Environment(os.environ)

DEBUG = environment.flag("FAIRJUDGE_DEBUG")
FAIRJUDGE_DATA = environment.folder(
    "FAIRJUDGE_DATA", BASE_DIR / "data" if CHECKOUT else Path("data")
)
FAIRJUDGE_URL = environment.origin("FAIRJUDGE_URL", "http://127.0.0.1:8000")
site = urlsplit(FAIRJUDGE_URL)
HTTPS = site.scheme == "https"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
# As requests name it: an IPv6 address in brackets.
host = f"[{site.hostname}]" if ":" in (site.hostname or "") else site.hostname
own_address = site.netloc if not HTTPS and host in LOOPBACK and site.port else ""
FAIRJUDGE_BIND = environment.address("FAIRJUDGE_BIND", own_address or "127.0.0.1:8000")
# Set by `manage.py demo`. The demo's entry needs no password, so nobody else may reach it.
FAIRJUDGE_DEMO = environment.flag("FAIRJUDGE_DEMO") and (
    FAIRJUDGE_BIND.rpartition(":")[0] in LOOPBACK and host in LOOPBACK
)
# Something has to end TLS in front of an https address, so one proxy is the default there.
FAIRJUDGE_PROXIES = environment.integer("FAIRJUDGE_PROXIES", int(HTTPS), 0, 10)
SECRET_KEY = environment.secret("FAIRJUDGE_SECRET_KEY", FAIRJUDGE_DATA / "secret_key")

# The judge. Keys stay in this one mapping, by the name of their variable.
FAIRJUDGE_JUDGE_MODEL = environment.text("FAIRJUDGE_JUDGE_MODEL")
FAIRJUDGE_SENTENCE_MODEL = environment.existing_folder("FAIRJUDGE_SENTENCE_MODEL")
FAIRJUDGE_PRICES = environment.file("FAIRJUDGE_PRICES")
# How long a worker that is asked to end waits for answers that are on their way.
FAIRJUDGE_STOP_SECONDS = environment.integer("FAIRJUDGE_STOP_SECONDS", 10, 1, 3600)
# How large the parts of `runall` are, and how long it waits for a database that comes late.
FAIRJUDGE_WEB_PROCESSES = environment.integer("FAIRJUDGE_WEB_PROCESSES", 2, 1, 64)
FAIRJUDGE_WEB_THREADS = environment.integer("FAIRJUDGE_WEB_THREADS", 8, 1, 64)
FAIRJUDGE_RUN_THREADS = environment.integer("FAIRJUDGE_RUN_THREADS", 4, 1, 64)
FAIRJUDGE_WAIT_SECONDS = environment.integer("FAIRJUDGE_WAIT_SECONDS", 60, 0, 3600)
FAIRJUDGE_ENDPOINTS = environment.endpoints("FAIRJUDGE_ENDPOINTS")
if environment.text("OPENAI_BASE_URL") or environment.text("OPENAI_API_KEY"):
    FAIRJUDGE_ENDPOINTS["default"] = {
        "base_url": environment.base_url("OPENAI_BASE_URL", "https://api.openai.com/v1"),
        "key_variable": "OPENAI_API_KEY",
    }
FAIRJUDGE_ENDPOINT_KEYS = {
    endpoint["key_variable"]: environment.text(endpoint["key_variable"])
    for endpoint in FAIRJUDGE_ENDPOINTS.values()
    if environment.text(endpoint["key_variable"])
}
# What endpoints that the site's owner names on a page may use as keys, and nothing of the site's.
FAIRJUDGE_OTHER_KEYS = environment.other_keys()

# Logging in. Client secrets stay in this one mapping, by the name of their variable.
FAIRJUDGE_OIDC = environment.providers("FAIRJUDGE_OIDC")
FAIRJUDGE_OIDC_NEW_ACCOUNTS = environment.flag("FAIRJUDGE_OIDC_NEW_ACCOUNTS")
FAIRJUDGE_OIDC_SECRETS = {
    variable: environment.text(variable)
    for variable in (provider["secret"] for provider in FAIRJUDGE_OIDC.values())
    if environment.text(variable)
}
FAIRJUDGE_SECOND_FACTOR = environment.choice(
    "FAIRJUDGE_SECOND_FACTOR", "OFF", "OFF", "OFFERED", "REQUIRED"
)
if FAIRJUDGE_SECOND_FACTOR != "OFF":
    environment.require("FAIRJUDGE_SECOND_FACTOR", "fido2", "login")

INSTALLED_APPS = [
    "fairjudge_site",
    "annotation.results",
    "annotation",
    "judging",
    "axes",
    "csp",
    "django_htmx",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "fairjudge_site.requests.named_requests",
    "fairjudge_site.metrics.page_times",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "fairjudge_site.requests.private_pages",
    "fairjudge_site.requests.utf8_only",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "fairjudge_site.requests.speaks",
    "fairjudge_site.requests.no_uploads_without_login",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "fairjudge_site.requests.crowd_keeps_to_its_round",
    "fairjudge_site.requests.asks_to_look",
    "axes.middleware.AxesMiddleware",
]
# Both are loaded only where they are used: they take time at each start and at each request.
if FAIRJUDGE_SECOND_FACTOR == "REQUIRED":
    MIDDLEWARE.append("fairjudge_site.account.asks_for_second_factor")
if FAIRJUDGE_OIDC:
    environment.require("FAIRJUDGE_OIDC", "allauth", "login")
    INSTALLED_APPS += [
        "allauth",
        "allauth.account",
        "allauth.socialaccount",
        "allauth.socialaccount.providers.openid_connect",
    ]
    MIDDLEWARE.append("allauth.account.middleware.AccountMiddleware")
    SOCIALACCOUNT_ADAPTER = "fairjudge_site.oidc.Accounts"
ROOT_URLCONF = "fairjudge_site.urls"
WSGI_APPLICATION = "fairjudge_site.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"] if CHECKOUT else [],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "fairjudge_site.requests.language",
            ],
            "libraries": {"docs": "fairjudge_site.docs_pages"},
        },
    }
]

# The database
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
database_url = environment.text("DATABASE_URL", f"sqlite:///{FAIRJUDGE_DATA / 'fairjudge.sqlite3'}")
try:
    DATABASES = {"default": dj_database_url.parse(database_url)}
except (dj_database_url.ParseError, dj_database_url.UnknownSchemeError, ValueError):
    raise SettingError(
        "DATABASE_URL", "it must be postgres://user:password@host:5432/name or sqlite:///file"
    ) from None
# SQLite too reads the whole schema again whenever it is opened: a quarter of a request.
DATABASES["default"]["CONN_MAX_AGE"] = 60
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A transaction that starts as a reader cannot become a writer while another one writes, and no
    # timeout helps: hence IMMEDIATE.
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
    DATABASES["default"]["TEST"] = {"NAME": FAIRJUDGE_DATA / "test.sqlite3"}
elif DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    environment.require("DATABASE_URL", "psycopg", "postgres")
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    DATABASES["default"].setdefault("OPTIONS", {})["prepare_threshold"] = 5
else:
    raise SettingError("DATABASE_URL", "only SQLite and PostgreSQL are supported")
# Without a file, each process would have a database of its own that ends with it.
if str(DATABASES["default"]["NAME"]) in ("", ":memory:"):
    raise SettingError("DATABASE_URL", "it must name the database, or with sqlite:/// a file")

# Figures of a large project take seconds: what one process computed serves the others. With a
# database that other machines reach, theirs too.
ON_POSTGRESQL = DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql"
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "reports": {
        "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
        "LOCATION": FAIRJUDGE_DATA / "cache",
    },
}
if ON_POSTGRESQL:
    CACHES["reports"] = {"BACKEND": "judging.core.storage.DatabaseCache"}

# The database to which `move_to_postgresql` moves the site.
NEW_DATABASE_URL = environment.text("NEW_DATABASE_URL", "")

# The queue. The broker only wakes workers; the database says which work is left.
QUEUE_FOLDER = FAIRJUDGE_DATA / "queue"
CELERY_BROKER_URL = environment.text("CELERY_BROKER_URL", "filesystem://localhost")
if CELERY_BROKER_URL.startswith("filesystem:"):
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(QUEUE_FOLDER / "messages"),
        "data_folder_out": str(QUEUE_FOLDER / "messages"),
        "processed_folder": str(QUEUE_FOLDER / "taken"),
        "control_folder": str(QUEUE_FOLDER / "control"),
        "polling_interval": 0.2,
    }
    made("FAIRJUDGE_DATA", *(QUEUE_FOLDER / name for name in ("messages", "taken", "control")))
elif not CELERY_BROKER_URL.startswith(("redis://", "rediss://", "amqp://", "amqps://")):
    raise SettingError("CELERY_BROKER_URL", "it must start with redis://, amqp:// or filesystem://")
else:
    # Not shown, since it may hold a password.
    environment.port("CELERY_BROKER_URL")
    if CELERY_BROKER_URL.startswith("redis"):
        environment.require("CELERY_BROKER_URL", "redis", "postgres")
# Sites that share a broker each need a prefix of their own.
FAIRJUDGE_QUEUE_PREFIX = environment.word("FAIRJUDGE_QUEUE_PREFIX")
RUNS, QUICK = f"{FAIRJUDGE_QUEUE_PREFIX}runs", f"{FAIRJUDGE_QUEUE_PREFIX}quick"
CELERY_TASK_QUEUES = [Queue(name, Exchange(name), name) for name in (RUNS, QUICK)]
CELERY_TASK_DEFAULT_QUEUE = QUICK
CELERY_TASK_ROUTES = {
    "judging.tasks.pump_run": {"queue": RUNS},
    # Sent by its name, from where the task itself is not known.
    "annotation.results.tasks.go_on_with_round": {"queue": QUICK},
    "annotation.results.tasks.renew_report": {"queue": QUICK},
    "annotation.results.tasks.work_on_round": {"queue": QUICK},
    "annotation.results.tasks.go_on_deleting": {"queue": QUICK},
    "annotation.results.tasks.go_on_erasing": {"queue": QUICK},
    "annotation.results.tasks.send_mail": {"queue": QUICK},
    "annotation.results.tasks.look_who_waits": {"queue": QUICK},
    "annotation.results.tasks.remove_due": {"queue": QUICK},
    "annotation.results.tasks.tell_certificate": {"queue": QUICK},
    "annotation.results.tasks.work_on_job": {"queue": QUICK},
}
CELERY_TASK_CREATE_MISSING_QUEUES = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0.2}
CELERY_BROKER_CONNECTION_TIMEOUT = 4
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# However long it is away.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_ENABLE_UTC = True

# Who may come in, and how it is kept safe
ALLOWED_HOSTS = [host, *LOOPBACK]
CSRF_TRUSTED_ORIGINS = [FAIRJUDGE_URL]
CSRF_COOKIE_SECURE = SESSION_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0
# Neither the neighbours of this host nor browsers' preload lists are ours to decide on.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
if FAIRJUDGE_PROXIES:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "fairjudge_site.requests.csrf_failure"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}
SESSION_ENGINE = "fairjudge_site.requests"
LOGIN_BACKEND = "fairjudge_site.requests.Logins"
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", LOGIN_BACKEND]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "fairjudge_site.requests.client_address"
AXES_LOCKOUT_TEMPLATE = "registration/locked.html"
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"

# Files
STATIC_URL = "/static/"
STATIC_ROOT = FAIRJUDGE_DATA / "static"
made("FAIRJUDGE_DATA", STATIC_ROOT)
STATICFILES_DIRS = [BASE_DIR / "static"] if CHECKOUT else []
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "fairjudge_site.requests.CollectedStorage"},
}
WHITENOISE_USE_FINDERS = True
# Uploads are read and written here. They stay here only if no other machine needs them.
MEDIA_ROOT = FAIRJUDGE_DATA / "uploads"
FAIRJUDGE_FILES = environment.files("FAIRJUDGE_FILES", "database" if ON_POSTGRESQL else "folder")
FILES_SECRET = environment.text("AWS_SECRET_ACCESS_KEY")
if FAIRJUDGE_FILES.place == "folder":
    MEDIA_ROOT = FAIRJUDGE_FILES.folder or MEDIA_ROOT
    made("FAIRJUDGE_FILES", MEDIA_ROOT)
elif FAIRJUDGE_FILES.place == "database":
    STORAGES["files"] = {"BACKEND": "judging.core.storage.DatabaseStorage"}
else:
    environment.require("FAIRJUDGE_FILES", "storages", "s3")
    environment.require("FAIRJUDGE_FILES", "boto3", "s3")
    keys = {"access_key": environment.text("AWS_ACCESS_KEY_ID"), "secret_key": FILES_SECRET}
    STORAGES["files"] = {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": FAIRJUDGE_FILES.options | {name: key or None for name, key in keys.items()},
    }
FILE_UPLOAD_PERMISSIONS = 0o600
FAIRJUDGE_MAX_UPLOAD_BYTES = 2**20 * environment.integer("FAIRJUDGE_MAX_UPLOAD_MB", 200, 1, 10_000)
# The size of each image before it is cleaned. An import fetches images from these hosts alone.
FAIRJUDGE_MAX_IMAGE_BYTES = 2**20 * environment.integer("FAIRJUDGE_MAX_IMAGE_MB", 5, 1, 50)
FAIRJUDGE_IMAGE_HOSTS = environment.hosts("FAIRJUDGE_IMAGE_HOSTS")
# Requests a minute that each token of the REST interface is granted.
FAIRJUDGE_API_RATE = environment.integer("FAIRJUDGE_API_RATE", 600, 1, 1_000_000)
# Hosts in private networks to which webhooks may lead all the same.
FAIRJUDGE_WEBHOOK_HOSTS = environment.hosts("FAIRJUDGE_WEBHOOK_HOSTS")
FILE_UPLOAD_HANDLERS = ["fairjudge_site.requests.LimitedUploadHandler"]

# Mail. Without EMAIL_URL nothing is sent, and pages show links to copy.
MAIL = environment.mail("EMAIL_URL")
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
vars().update(MAIL)
EMAIL_TIMEOUT = 20
# The host of mail on a site that has an IP address alone is this machine.
named = host if host and re.search(r"[.][a-z]", host) else "localhost"
DEFAULT_FROM_EMAIL = environment.sender("EMAIL_FROM", f"fairjudge@{named}")

# Who is told of what needs the operator, and how old the last backup may be. 0: any age.
FAIRJUDGE_ALERT_MAIL = environment.addresses("FAIRJUDGE_ALERT_MAIL")
FAIRJUDGE_ALERT_URL = environment.hook("FAIRJUDGE_ALERT_URL")
FAIRJUDGE_BACKUP_DAYS = environment.integer("FAIRJUDGE_BACKUP_DAYS", 0, 0, 3650)
if FAIRJUDGE_ALERT_MAIL and not MAIL:
    raise SettingError("FAIRJUDGE_ALERT_MAIL", "mail needs a server: set EMAIL_URL, too")

# Who may read /metrics. Without either it is closed.
FAIRJUDGE_METRICS_TOKEN = environment.token("FAIRJUDGE_METRICS_TOKEN")
FAIRJUDGE_METRICS_ADDRESSES = environment.networks("FAIRJUDGE_METRICS_ADDRESSES")

# Each by its own name. Pages that annotators meet are in all of them, the others in English.
LANGUAGE_CODE = "en"
LANGUAGES = [
    ("en", "English"),
    ("de", "Deutsch"),
    ("es", "Español"),
    ("fr", "Français"),
    ("zh-hans", "简体中文"),
    ("ar", "العربية"),
]
USE_I18N = True
LOCALE_PATHS = [BASE_DIR / "locale"] if CHECKOUT else []
# A choice that somebody makes before a login, as on the page of an invitation.
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600
LANGUAGE_COOKIE_HTTPONLY, LANGUAGE_COOKIE_SAMESITE = True, "Lax"
LANGUAGE_COOKIE_SECURE = HTTPS
TIME_ZONE = "UTC"
USE_TZ = True

# OpenTelemetry reads its own variables. Here they say whether anything is traced, as which service.
FAIRJUDGE_TRACES = environment.traces()
if FAIRJUDGE_TRACES:
    environment.require(environment.set_of(TRACED_TO), "opentelemetry.exporter.otlp", "otel")

LOG_LEVEL = environment.choice("FAIRJUDGE_LOG_LEVEL", "INFO", "DEBUG", "INFO", "WARNING", "ERROR")
LOG_FORMAT = environment.choice("FAIRJUDGE_LOG_FORMAT", "TEXT", "TEXT", "JSON").lower()
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {
            "()": "fairjudge_site.logs.SecretsFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        },
        "json": {"()": "fairjudge_site.logs.JsonFormatter"},
    },
    "filters": {"broker": {"()": "fairjudge_site.logs.BrokerAway"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {
        "django": {"handlers": [], "propagate": True},
        # These write whole addresses and headers at lower levels.
        "httpx": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},
        "openai": {"level": "WARNING"},
        "aiohttp": {"level": "WARNING"},
        "axes": {"level": "WARNING"},
        # It says at each attempt that the broker is away.
        "celery.worker.consumer.consumer": {"filters": ["broker"]},
        "py.warnings": {"filters": ["broker"]},
        "fido2": {"level": "WARNING"},
    },
}
