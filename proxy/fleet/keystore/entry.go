package keystore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"penstock/config"
)

type entry struct {
	id      string
	version uint64
	raw     string // the complete entry as stored
	body    string // the key as a JSON object
	revoked bool
	key     config.Key
}

// These are the reasons for rejecting an entry, as metric labels.
const (
	entryForged     = "forged" // not signed with the secret, or truncated
	entryOldVersion = "older"  // this edge has already read a newer version
	entryBroken     = "broken" // signed, but invalid for this program version
)

type refusedEntryError struct {
	reason string
	err    error
}

func (r *refusedEntryError) Error() string { return r.err.Error() }

// formatPrefix is the prefix of every entry. Another format would have a different number.
const formatPrefix = "1 "

func entryMAC(secret, id string, version uint64, body string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "penstock key %q %d %s", id, version, body)
	return h.Sum(nil)
}

func signEntry(secret, id string, version uint64, body string) string {
	return formatPrefix + strconv.FormatUint(version, 10) + " " + hex.EncodeToString(entryMAC(secret, id, version, body)) + " " + body
}

const maxEntryBytes = 64 << 10

// verifyEntry checks that an entry is signed with one of the secrets, and returns the entry's version
// and body.
func verifyEntry(secrets []string, id, raw string) (e entry, err error) {
	text, known := strings.CutPrefix(raw, formatPrefix)
	number, rest, _ := strings.Cut(text, " ")
	digits, body, whole := strings.Cut(rest, " ")
	version, bad := strconv.ParseUint(number, 10, 64)
	if !known || !whole || digits == "" || bad != nil || len(raw) > maxEntryBytes {
		return e, &refusedEntryError{entryForged, errors.New("it does not have the form of an entry")}
	}
	for _, secret := range secrets {
		// Comparing the complete text rejects every other encoding of the same entry.
		if hmac.Equal([]byte(raw), []byte(signEntry(secret, id, version, body))) {
			return entry{id: id, version: version, raw: raw, body: body}, nil
		}
	}
	return e, &refusedEntryError{entryForged, errors.New("none of fleet.keys.secrets has signed it")}
}

func parseEntry(secrets []string, id, raw string) (entry, error) {
	e, err := verifyEntry(secrets, id, raw)
	if err != nil {
		return e, err
	}
	var kind struct {
		Revoked bool `json:"revoked"`
	}
	if err := json.Unmarshal([]byte(e.body), &kind); err != nil {
		return e, &refusedEntryError{entryBroken, errors.New("its text is not JSON")}
	}
	if e.revoked = kind.Revoked; e.revoked {
		return e, nil
	}
	if e.key, err = config.ParseKeyEntry(e.body); err != nil {
		return e, &refusedEntryError{entryBroken, err}
	}
	if e.key.ID != id {
		return e, &refusedEntryError{entryBroken, errors.New("it belongs to another id")}
	}
	return e, nil
}

const revokedBody = `{"revoked":true}`
