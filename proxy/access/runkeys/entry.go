package runkeys

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"penstock/config"
)

// MaxRequestBytes is the maximum size of an operator's request in bytes.
const MaxRequestBytes = 16 << 10

// RequestMistakeError describes a mistake in an operator's request. The description never contains
// a hash or a key.
type RequestMistakeError struct {
	Field   string // empty if the mistake concerns the entire request body
	Message string
}

func (m *RequestMistakeError) Error() string {
	if m.Field == "" {
		return m.Message
	}
	return m.Field + ": " + m.Message
}

// placeholderHash is used as the key's hash while an operator's request is checked.
var placeholderHash = config.HashPrefix + strings.Repeat("0", 64)

// NewEntry returns the entry for a new key. body is the operator's request, which contains no hash.
// The error is a *RequestMistakeError.
func NewEntry(body []byte, hash string) (entry string, err error) {
	members, err := parseMembers(body)
	if err != nil {
		return "", err
	}
	if _, named := members["id"]; !named {
		return "", &RequestMistakeError{"id", "a key needs an id, which is its name in logs, metrics and pages"}
	}
	if err := validateEntry(body, ""); err != nil {
		return "", err
	}
	dropNulls(members)
	members["hash"], _ = json.Marshal(hash) // marshaling a string never fails
	return encodeEntry(members)
}

// ChangeEntry returns a changed entry. Each member of patch replaces the member with the same name
// in the entry. null removes the member. Members of limits are replaced individually (RFC 7396). If
// the patch is invalid, the error is a *RequestMistakeError.
func ChangeEntry(entry string, patch []byte) (string, error) {
	change, err := parseMembers(patch)
	if err != nil {
		return "", err
	}
	if _, named := change["id"]; named {
		return "", &RequestMistakeError{"id", "a key keeps its id: make another key, and revoke this one"}
	}
	if err := validateEntry(patch, "changed"); err != nil {
		return "", err
	}
	members, err := decodeEntry(entry)
	if err != nil {
		return "", err
	}
	if next, given := change["limits"]; given && string(next) != "null" {
		limits := map[string]json.RawMessage{}
		if old, has := members["limits"]; has {
			if err := json.Unmarshal(old, &limits); err != nil {
				return "", err
			}
		}
		var some map[string]json.RawMessage
		if err := json.Unmarshal(next, &some); err != nil {
			return "", &RequestMistakeError{"limits", "limits are an object, such as {\"requests_per_minute\": 600}"}
		}
		maps.Copy(limits, some)
		dropNulls(limits)
		change["limits"], _ = json.Marshal(limits) // never fails for parsed values
	}
	maps.Copy(members, change)
	dropNulls(members)
	return encodeEntry(members)
}

// RotateEntry returns the entry with an additional hash. The previous hashes expire at the time
// until. RotateEntry removes hashes that have already expired.
func RotateEntry(entry, hash string, until, now time.Time) (string, error) {
	key, err := config.ParseKeyEntry(entry)
	if err != nil {
		return "", err
	}
	members, err := decodeEntry(entry)
	if err != nil {
		return "", err
	}
	type one struct {
		Hash    string     `json:"hash"`
		Expires *time.Time `json:"expires,omitempty"`
	}
	all := []one{{Hash: hash}}
	for _, h := range key.Hash {
		end := h.Expires
		if end.IsZero() || until.Before(end) {
			end = until
		}
		if end.After(now) {
			end = end.UTC().Truncate(time.Second)
			all = append(all, one{h.Hash, &end})
		}
	}
	members["hash"], _ = json.Marshal(all) // never fails for strings and valid times
	return encodeEntry(members)
}

func parseMembers(body []byte) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, &RequestMistakeError{"", "the body is a JSON object, such as {\"id\": \"team-a\", \"limits\": {\"requests_per_minute\": 600}}"}
	}
	for _, own := range []string{"hash", "certificate"} {
		if _, given := members[own]; given {
			return nil, &RequestMistakeError{own, "a key that is made here is known by the secret that the edge makes for it: leave it out"}
		}
	}
	return members, nil
}

// validateEntry applies the rules for a keys_file, and rejects duplicate members. Unless id is
// empty, it is added to body before the check.
func validateEntry(body []byte, id string) error {
	var line bytes.Buffer
	if err := json.Compact(&line, body); err != nil {
		return &RequestMistakeError{"", err.Error()}
	}
	own := fmt.Sprintf(`{"hash":%q`, placeholderHash)
	if id != "" {
		own += fmt.Sprintf(`,"id":%q`, id)
	}
	if rest := line.String()[1:]; rest == "}" {
		own += rest
	} else {
		own += "," + rest
	}
	_, err := config.ParseKeyEntry(own)
	var bad *config.KeyError
	if errors.As(err, &bad) {
		return &RequestMistakeError{bad.Field, bad.Message}
	}
	return err
}

// dropNulls removes members with the value null, which means the same as a missing member.
func dropNulls(members map[string]json.RawMessage) {
	maps.DeleteFunc(members, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
}

func decodeEntry(entry string) (members map[string]json.RawMessage, err error) {
	err = json.Unmarshal([]byte(entry), &members)
	return members, err
}

// encodeEntry returns an entry as one line that starts with the id and the hash.
func encodeEntry(members map[string]json.RawMessage) (string, error) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(members)), func(n string) bool { return n == "id" || n == "hash" })
	var out bytes.Buffer
	for i, name := range append([]string{"id", "hash"}, names...) {
		fmt.Fprintf(&out, "%c%q:", "{,"[min(i, 1)], name)
		if err := json.Compact(&out, members[name]); err != nil {
			return "", err
		}
	}
	out.WriteByte('}')
	return out.String(), nil
}
