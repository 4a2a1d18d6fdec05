#!/bin/sh
# Build the image, bring docker-compose.yml up with podman, run the demo through it, kill Redis in the
# middle, and take everything away again. For Debian, as root; takes some minutes.
#
# Needs: podman, buildah, debootstrap, runc or crun, the dnsname plugin, catatonit, and
# podman-compose (pip). No registry is asked: a Debian made here stands in for the official images of
# Python and Redis, so it proves the file and the image, not those bases.
#
#   PYTHON           a Python with this project's test dependencies; .venv/bin/python
#   PODMAN_COMPOSE   the program; podman-compose
#   CONTAINERS_CONF  podman's own settings, if the machine needs some
#   MIRROR           of Debian; what debootstrap takes by itself
#   CA_BUNDLE        a file of authorities for the build, where a proxy has its own
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
python=${PYTHON:-.venv/bin/python}
compose=${PODMAN_COMPOSE:-podman-compose}
cd "$root"

for program in podman debootstrap "$compose" "$python"; do
    command -v "$program" >/dev/null || { echo "compose-test: $program is missing" >&2; exit 2; }
done

scratch=$(mktemp -d)
project=stepkeeper-test-$$
state=docker.io/library

finish() {
    status=$?
    trap - EXIT INT TERM
    $compose --project-name "$project" --env-file "$scratch/env" down --volumes >"$scratch/down" 2>&1 || cat "$scratch/down" >&2
    podman rmi --force stepkeeper:local "$state/python:3.12-slim" "$state/redis:7" >/dev/null 2>&1 || true
    podman image prune --force >/dev/null 2>&1 || true
    for place in sys proc; do umount "$scratch/rootfs/$place" 2>/dev/null || true; done
    rm -rf --one-file-system "$scratch"
    exit "$status"
}
trap finish EXIT INT TERM

echo "compose-test: a Debian in place of the official images"
# shellcheck disable=SC2086 # no mirror is no word
debootstrap --variant=minbase \
    --include=ca-certificates,python3,python3-venv,python3-pip,redis-server \
    bookworm "$scratch/rootfs" ${MIRROR:-} >"$scratch/debootstrap" 2>&1 || { tail -20 "$scratch/debootstrap" >&2; exit 1; }
ln -s python3 "$scratch/rootfs/usr/bin/python"
if [ -n "${CA_BUNDLE:-}" ]; then
    cp "$CA_BUNDLE" "$scratch/rootfs/etc/ssl/certs/ca-certificates.crt"
    printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$scratch/rootfs/etc/pip.conf"
fi
tar -C "$scratch/rootfs" --one-file-system -c . | podman import - "$state/python:3.12-slim" >/dev/null
podman tag "$state/python:3.12-slim" "$state/redis:7"

echo "compose-test: the image"
podman build --format docker --isolation chroot --network host --file deploy/Dockerfile --tag stepkeeper:local . \
    >"$scratch/build" 2>&1 || { tail -40 "$scratch/build" >&2; exit 1; }

sh deploy/make-env.sh >"$scratch/env"
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
flower=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
sed -e "s/^SERVE_PORT=.*/SERVE_PORT=$port/" -e "s/^FLOWER_PORT=.*/FLOWER_PORT=$flower/" \
    -i "$scratch/env"

echo "compose-test: up"
set -a
# shellcheck disable=SC1091 # made above
. "$scratch/env"
set +a
$compose --project-name "$project" --env-file "$scratch/env" up --detach --no-build \
    >"$scratch/up" 2>&1 || { tail -40 "$scratch/up" >&2; exit 1; }
"$python" -m tests.support.containers "$project" "http://127.0.0.1:$port" "http://127.0.0.1:$flower"
