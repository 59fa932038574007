# The checkout with its dependencies. `runall --only` chooses which parts a container runs.
# `make pins` writes the digests of the images anew.
FROM python:3.11-slim-trixie@sha256:da047cb8f9d1d98e5c070f5300ba9f7274e33b8fc0e5be5ed88740aed1b95ba9

# `backup` and `restore` call PostgreSQL's own programs, in the major version that compose.yaml uses.
RUN apt-get update && apt-get install --yes --no-install-recommends postgresql-client-17 \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 fairjudge \
    && mkdir /data && chown fairjudge /data && chmod 700 /data
WORKDIR /app
COPY requirements.lock ./
# Install the dependencies first, so that a change in the code doesn't install them again. A package
# whose file has another hash than the one that was tested is refused.
RUN pip install --no-cache-dir --require-hashes --requirement requirements.lock
COPY . .
# The containers can't write here, so the bytecode is made now.
RUN python -m compileall -q annotation fairjudge_site judging

USER fairjudge
ENV FAIRJUDGE_DATA=/data FAIRJUDGE_BIND=0.0.0.0:8000 PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --start-period=60s CMD python -c \
    "from judging.core.processes import status_at; exit(status_at('127.0.0.1:8000', '/healthz', 10) != 200)"
CMD ["python", "manage.py", "runall"]
