#!/bin/sh
# Start Redis with the settings and the users of this folder; options behind it are the server's.
#
# Each user of users.acl gets the password in REDIS_NAME_PASSWORD, or in the file that
# REDIS_NAME_PASSWORD_FILE names; NAME is the user's, in capitals. One without a password cannot log
# in. Only digests of the passwords reach the server.
#
#   REDIS_RUN_DIR  where the server's own ACL file and settings are made; /tmp
#   REDIS_SERVER   the program; redis-server
#   REDIS_TLS      yes: with tls.conf
set -euf

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
run=${REDIS_RUN_DIR:-/tmp}
server=${REDIS_SERVER:-redis-server}
umask 077

# Print the password of a user; nothing if there is none.
password_of() {
    name=$(printf %s "$1" | tr '[:lower:]' '[:upper:]')
    eval "value=\${REDIS_${name}_PASSWORD:-} file=\${REDIS_${name}_PASSWORD_FILE:-}"
    if [ -n "$file" ]; then
        cat -- "$file"
    else
        printf %s "$value"
    fi
}

: >"$run/users.acl"
names=
while IFS= read -r line; do
    name=${line#user }
    name=${name%% *}
    password=$(password_of "$name")
    if [ -n "$password" ] && [ "${#password}" -lt 16 ]; then
        echo "start.sh: the password of Redis user $name has fewer than 16 characters" >&2
        exit 2
    fi
    if [ -n "$password" ]; then
        digest=$(printf %s "$password" | sha256sum)
        line="user $name on resetpass #${digest%% *} ${line#user "$name" on resetpass}"
        names="$names $name"
    fi
    printf '%s\n' "$line" >>"$run/users.acl"
done <"$here/users.acl"

cat "$here/redis.conf" >"$run/redis.conf"
if [ "${REDIS_TLS:-no}" = yes ]; then
    cat "$here/tls.conf" >>"$run/redis.conf"
fi

# The server needs none of the passwords.
for name in $names; do
    name=$(printf %s "$name" | tr '[:lower:]' '[:upper:]')
    unset "REDIS_${name}_PASSWORD"
done
exec "$server" "$run/redis.conf" --aclfile "$run/users.acl" "$@"
