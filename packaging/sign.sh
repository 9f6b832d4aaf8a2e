#!/usr/bin/env bash
# sign.sh KEY sums FOLDER: sign FOLDER/SHA256SUMS: SHA256SUMS.asc is the signature, release-key.asc the public key.
# sign.sh KEY tag NAME MESSAGE: a signed tag of the current commit, in place of another one of this name.
#
# KEY is a key of gpg: its fingerprint, or a mail address. What was signed is verified at once. docs/install.md says how others do that.
set -euo pipefail

key=$1 what=$2

case $what in
    sums)
        cd "$3"
        sha256sum --quiet --strict -c SHA256SUMS
        gpg --batch --yes --local-user "$key" --armor --detach-sign --output SHA256SUMS.asc SHA256SUMS
        gpg --batch --yes --armor --export --output release-key.asc "$key"
        gpg --batch --verify SHA256SUMS.asc SHA256SUMS 2>/dev/null
        ;;
    tag)
        git -c gpg.format=openpgp tag --force --sign --local-user "$key" -m "$4" "$3" >/dev/null
        git -c gpg.format=openpgp verify-tag "$3" 2>/dev/null
        ;;
    *) exit 2 ;;
esac
