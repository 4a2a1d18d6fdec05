#!/bin/sh
# Print .env.example with a random word for every empty password and secret.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

while IFS= read -r line; do
    case $line in
        *_PASSWORD= | *_SECRET=)
            printf '%s%s\n' "$line" "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" ;;
        *)
            printf '%s\n' "$line" ;;
    esac
done <"$here/../.env.example"
