#!/usr/bin/env bash
# Puts the program beside this file: $PENSTOCK_BIN, or else one built from the checkout that this
# folder was copied from ($PENSTOCK_SRC; by default the folder three levels up).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ -n "${PENSTOCK_BIN-}" ]; then
  cp "$PENSTOCK_BIN" "$here/penstock"
else
  (cd "${PENSTOCK_SRC:-$here/../../..}" && CGO_ENABLED=0 go build -trimpath -o "$here/penstock" .)
fi
"$here/penstock" --version
