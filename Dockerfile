# The studio on a CPU, as an ordinary user, behind a token. The steps are scripts that docker/check runs without Docker.
#
#   docker build -t likewise .
#   docker run --rm -p 127.0.0.1:8000:8000 -v likewise:/data -e LIKEWISE_TOKEN=choose-one likewise
FROM python:3.11-slim

# An index with CPU builds of torch; without one pip fetches gigabytes of CUDA packages.
ARG PIP_EXTRA_INDEX_URL=""
COPY . /source
RUN sh /source/docker/install /source /opt/likewise && cp -r /source/docker /opt/likewise/docker && rm -rf /source

RUN useradd --uid 10001 --create-home likewise && mkdir /data && chown likewise /data
USER likewise
ENV LIKEWISE_CACHE=/data/cache
WORKDIR /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s \
    CMD ["/opt/likewise/bin/python", "/opt/likewise/docker/healthy.py"]
CMD ["sh", "/opt/likewise/docker/serve", "/opt/likewise", "/data"]
