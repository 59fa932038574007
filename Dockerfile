# The checkout with its dependencies. `runall --only` chooses which parts a container runs. The last
# stage is the default. `--target full` adds the extras grammars, local, otel, pdf, pictures and s3.
# `make pins` writes the digests of the images anew.
FROM python:3.11-slim-trixie@sha256:da047cb8f9d1d98e5c070f5300ba9f7274e33b8fc0e5be5ed88740aed1b95ba9 AS base

# What PostgreSQL's programs need. The programs themselves come from the next stage.
RUN apt-get update && apt-get install --yes --no-install-recommends \
    liblz4-1 libpq5 libreadline8t64 libzstd1 \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 fairjudge \
    && mkdir /data && chown fairjudge /data && chmod 700 /data
ENV PATH=/venv/bin:/usr/lib/postgresql/17/bin:$PATH
WORKDIR /app

FROM base AS build
# `backup` and `restore` call PostgreSQL's own programs, in the major version that compose.yaml uses.
RUN apt-get update && apt-get install --yes --no-install-recommends postgresql-client-17
RUN python -m venv --without-pip /venv
COPY requirements.lock ./
# Install the dependencies first, so that a change in the code doesn't install them again. A package
# whose file has another hash than the one that was tested is refused.
RUN pip --python /venv/bin/python install --no-cache-dir --no-compile --require-hashes \
    --requirement requirements.lock
COPY annotation annotation
COPY docs docs
COPY fairjudge_site fairjudge_site
COPY judging judging
COPY locale locale
COPY deploy/slim.py deploy/bytecode.py /
RUN python /slim.py /venv locale /extras
COPY static static
COPY templates templates
COPY LICENSE NOTICE manage.py ./
# The containers can't write here, so the bytecode is made now.
RUN python -m compileall -q annotation fairjudge_site judging
RUN python /bytecode.py

FROM base AS fairjudge-base
COPY --from=build /usr/lib/postgresql/17/bin/pg_dump /usr/lib/postgresql/17/bin/pg_restore \
    /usr/lib/postgresql/17/bin/psql /usr/lib/postgresql/17/bin/
COPY --from=build /venv /venv
COPY --from=build /app /app
USER fairjudge
ENV FAIRJUDGE_DATA=/data FAIRJUDGE_BIND=0.0.0.0:8000 PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --start-period=60s CMD python -c \
    "from judging.core.processes import status_at; exit(status_at('127.0.0.1:8000', '/healthz', 10) != 200)"
CMD ["python", "manage.py", "runall"]

FROM fairjudge-base AS full
COPY --from=build /extras /venv/lib/python3.11/site-packages

FROM fairjudge-base AS fairjudge
