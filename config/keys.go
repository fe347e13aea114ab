package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"penstock/config/money"
	"penstock/config/strictyaml"
)

// Key is an API key. The file contains only its hash.
type Key struct {
	// The key has this name in logs, metrics and pages.
	ID string `yaml:"id"`
	// This is the hash of the key: sha256: and 64 hexadecimal digits. For rotation it may be a list
	// of hashes. `penstock key new` prints a new key once, with its hash.
	Hash KeyHashes `yaml:"hash"`
	// The key may use the models with these ids. A trailing * matches any suffix. Aliases do not
	// grant access.
	Models []string `yaml:"models"`
	// The key may be used for these operations. The default is all operations.
	Operations []string `yaml:"operations"`
	// The key expires at this time (RFC 3339). A date means the start of that day in UTC. If it is
	// omitted, the key never expires.
	Expires time.Time `yaml:"expires"`
	// The key may be used only while this is true.
	Active *bool `yaml:"active"`
	// These are the limits of the key. A limit of 0, the default, is no limit.
	Limits KeyLimits `yaml:"limits"`
	// The key belongs to this group (`groups`). The group's limits apply to the sum of all its
	// keys, in addition to the limits of each key. By default the key belongs to no group.
	Group string `yaml:"group"`
	// If a model's prompt_cache is per_key, keys with the same cache group share their cached
	// prompts. By default, a key does not share cached prompts.
	CacheGroup string `yaml:"cache_group"`
	// Calls of the key may go to deployments of these tiers. The default is all tiers without
	// external upstreams, because prompts may leave the premises only with consent.
	Tiers []int `yaml:"tiers"`
	// Calls of the key belong to this class (`classes`). The default is the first class.
	Class string `yaml:"class"`
	// While calls wait for slots, this weight sets the key's share. A key of weight 2 gets twice as
	// many tokens as a key of weight 1.
	Weight int `yaml:"weight"`
	// The edge accepts this client certificate instead of the key. The key then needs no hash.
	Certificate CertificateIdentity `yaml:"certificate"`
	Edges       int                 `yaml:"-"` // number of edges that share the limits (Fleet.Edges)
}

// MaxKeyWeight is the maximum weight of a key.
const MaxKeyWeight = 1000

// Class is a class of calls. Its calls wait behind the calls of earlier classes, and a call of an
// earlier class may evict them from the queue.
type Class struct {
	// The class has this name in keys and metrics.
	Name string `yaml:"name"`
	// The class gets this share of the slots even while calls of earlier classes wait.
	Floor Percent `yaml:"floor"`
}

// MaxClasses is the maximum number of classes.
const MaxClasses = 8

// Enabled reports whether the key is active. Active is true by default.
func (k *Key) Enabled() bool { return k.Active == nil || *k.Active }

// CertificateIdentity identifies a client certificate by one of two properties.
type CertificateIdentity struct {
	// The certificate has this name: a DNS name, a URI, or a mail or IP address.
	SAN string `yaml:"san"`
	// The certificate's public key has this hash: sha256: and 64 hexadecimal digits.
	SPKI string `yaml:"spki"`
}

// IsSet reports whether a certificate is configured.
func (k CertificateIdentity) IsSet() bool { return k != CertificateIdentity{} }

// canonicalize converts the name to the form in which names are compared: lower case, except for
// the part of a URI after the host. The format of a name determines its kind. A name that parses as
// an IP address is one. Otherwise, a name with a colon is a URI, a name with an @ is a mail
// address, and any other name is a DNS name.
func (k *CertificateIdentity) canonicalize() {
	k.SPKI = strings.ToLower(k.SPKI)
	if _, err := netip.ParseAddr(k.SAN); err == nil || !strings.Contains(k.SAN, ":") {
		k.SAN = strings.ToLower(k.SAN)
	} else if u, err := url.Parse(k.SAN); err == nil { // a malformed URI is reported later
		u.Host = strings.ToLower(u.Host)
		k.SAN = u.String()
	}
}

// ExpiresAt returns the time at which the key expires. This is when its last hash expires, or
// Expires if that is earlier. The zero time means never.
func (k *Key) ExpiresAt() time.Time {
	end := time.Time{}
	for _, h := range k.Hash {
		if h.Expires.IsZero() || k.Certificate.IsSet() {
			return k.Expires
		}
		if h.Expires.After(end) {
			end = h.Expires
		}
	}
	if end.IsZero() || !k.Expires.IsZero() && k.Expires.Before(end) {
		return k.Expires
	}
	return end
}

// KeyHash is one hash of a key. During a rotation, a hash may expire before the key.
type KeyHash struct {
	// This is the hash of the whole key: sha256: and 64 hexadecimal digits.
	Hash string `yaml:"hash"`
	// This hash expires at this time. If it is omitted, the hash never expires.
	Expires time.Time `yaml:"expires"`
}

// HashPrefix is the prefix of every KeyHash.Hash. Load and Parse convert the 64 hexadecimal digits
// after it to lower case.
const HashPrefix = "sha256:"

// KeyHashes is written as one string, or as a list of {hash, expires}.
type KeyHashes []KeyHash

// KeyLimits are the limits of a key. Zero means no limit.
type KeyLimits struct {
	// The key may start this many calls per minute. Calls above the limit get a 429. A call counts
	// once its key is accepted, even if its model or its body is then refused.
	RequestsPerMinute int `yaml:"requests_per_minute"`
	// The key may use this many tokens per minute, for prompts and answers combined. Calls above
	// the limit get a 429.
	TokensPerMinute int `yaml:"tokens_per_minute"`
	// The key may have this many calls in progress. Calls above the limit get a 429.
	Concurrency int `yaml:"concurrency"`
	// This defines how the limits apply to issuers' tokens that have this key's rights. caller:
	// each caller has separate limits. key: all callers and the key share the limits.
	Per string `yaml:"per"`

	// The key may use this many tokens per day (UTC), for prompts and answers combined. If there is
	// no ledger, all budgets start again when the edge restarts.
	TokensPerDay int `yaml:"tokens_per_day"`
	// The key may use this many tokens per month (UTC), for prompts and answers combined.
	TokensPerMonth int `yaml:"tokens_per_month"`
	// The key may spend this much per day (UTC), in the currency of the models' pricing.
	SpendPerDay money.Amount `yaml:"spend_per_day"`
	// The key may spend this much per month (UTC), in the currency of the models' pricing.
	SpendPerMonth money.Amount `yaml:"spend_per_month"`

	// JSON bodies of the key's calls may have at most this size, if it is smaller than
	// limits.request_body.
	RequestBody Bytes `yaml:"request_body"`
	// Uploads of the key's calls may have at most this size, if it is smaller than
	// limits.upload_body.
	UploadBody Bytes `yaml:"upload_body"`
}

// Group is a group of keys that share limits. Groups are not nested.
type Group struct {
	// The group has this name in keys, refusals and pages.
	ID string `yaml:"id"`
	// These limits apply to the sum of all keys in the group, in addition to the limits of each
	// key. A limit of 0, the default, is no limit.
	Limits GroupLimits `yaml:"limits"`
	Edges  int         `yaml:"-"` // number of edges that share the limits (Fleet.Edges)
}

// GroupLimits are the limits for the sum of all keys in a group. Zero means no limit.
type GroupLimits struct {
	// The keys of the group may start this many calls per minute in total. Calls above the limit
	// get a 429. The same calls count as for the limit of a key.
	RequestsPerMinute int `yaml:"requests_per_minute"`
	// The keys of the group may use this many tokens per minute in total, for prompts and answers.
	// Calls above the limit get a 429.
	TokensPerMinute int `yaml:"tokens_per_minute"`
	// The keys of the group may have this many calls in progress in total. Calls above the limit
	// get a 429.
	Concurrency int `yaml:"concurrency"`

	// The keys of the group may use this many tokens per day (UTC) in total, for prompts and
	// answers. If there is no ledger, all budgets start again when the edge restarts.
	TokensPerDay int `yaml:"tokens_per_day"`
	// The keys of the group may use this many tokens per month (UTC) in total, for prompts and
	// answers.
	TokensPerMonth int `yaml:"tokens_per_month"`
	// The keys of the group may spend this much per day (UTC) in total, in the currency of the
	// models' pricing.
	SpendPerDay money.Amount `yaml:"spend_per_day"`
	// The keys of the group may spend this much per month (UTC) in total, in the currency of the
	// models' pricing.
	SpendPerMonth money.Amount `yaml:"spend_per_month"`
}

// AsKey returns a pseudo-key with the group's limits. Its id cannot be the id of a real key.
func (g *Group) AsKey() Key {
	l := &g.Limits
	return Key{ID: "group " + g.ID, Edges: g.Edges, Limits: KeyLimits{
		RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, Concurrency: l.Concurrency,
		TokensPerDay: l.TokensPerDay, TokensPerMonth: l.TokensPerMonth,
		SpendPerDay: l.SpendPerDay, SpendPerMonth: l.SpendPerMonth,
	}}
}

// BodyLimits are limits on request bodies. Zero means no limit.
type BodyLimits struct{ RequestBody, UploadBody Bytes }

// Bodies returns the limits on request bodies.
func (l *KeyLimits) Bodies() BodyLimits { return BodyLimits{l.RequestBody, l.UploadBody} }

// HasBudget reports whether a daily or monthly budget is set.
func (l *KeyLimits) HasBudget() bool {
	return l.TokensPerDay != 0 || l.TokensPerMonth != 0 ||
		!l.SpendPerDay.Zero() || !l.SpendPerMonth.Zero()
}

// keysFile is the content of a keys_file. It may also be a bare list.
type keysFile struct {
	Keys []Key `yaml:"keys"`
}

// BindNode accepts a list, or a mapping with `keys`.
func (k *keysFile) BindNode(b *strictyaml.Binder, n strictyaml.Node) {
	if n.IsList() {
		b.BindList(n.WithPath("keys"), &k.Keys)
		return
	}
	b.BindFields(n, k)
}

// readKeys appends the keys of the keys_file to f. The positions in its problems refer to the
// keys_file.
func (f *File) readKeys() Problems {
	at := f.origin
	at.files = append(at.files, f.KeysFile)
	src, err := strictyaml.ReadRegular(f.KeysFile, strictyaml.MaxFileBytes)
	if err != nil {
		p := at.positions.ProblemAt("keys_file", err.Error())
		at.positions.MarkBroken("keys_file")
		return Problems{p}
	}
	at.digest.Write(src)
	var second keysFile
	d := strictyaml.Read(f.KeysFile, src, &second, strictyaml.Options{
		Least: "list the keys as in the main file, or write [] for none", Retired: removedSettings,
	})
	at.files = append(at.files, d.Files...)
	at.positions.AppendEntries("keys", d.Positions, len(f.Keys))
	f.Keys = append(f.Keys, second.Keys...)
	problems := d.Problems()
	switch {
	case !d.HasContent || len(problems) > 0 || len(second.Keys) > 0:
	case second.Keys == nil: // the file may be truncated
		at.positions.MarkBroken("keys")
		problems = append(problems, Problem{
			File: f.KeysFile, Path: "keys",
			Message: "the file lists no keys: write keys: [] for none",
		})
	default:
		at.keyless = true
	}
	if info, err := os.Stat(f.KeysFile); d.HasContent && err == nil {
		problems = append(problems, warnReadableByOthers(f.KeysFile, info)...)
	}
	return problems
}

// warnReadableByOthers warns if users other than the owner and the group can read a file that
// contains keys.
func warnReadableByOthers(path string, info os.FileInfo) Problems {
	if !strictyaml.ReadableByOthers(info) {
		return nil
	}
	return Problems{{
		File: path, Warning: true,
		Message: fmt.Sprintf("the file holds keys and has mode %04o: chmod 640 keeps other users out", info.Mode().Perm()),
	}}
}

// keysLinePattern matches the line that starts a block list of keys. The line may also contain an
// empty list.
var keysLinePattern = regexp.MustCompile(`^keys:[ \t]*(\[[ \t]*\][ \t]*)?(#.*)?$`)

// AppendKey appends a key to the keys in a keys_file or a configuration, and returns the new text.
// lines contains the lines of the new key, which start with " - ". All other lines stay unchanged.
// An empty src becomes a keys_file.
func AppendKey(src []byte, lines string) ([]byte, error) {
	text := strings.Split(strings.TrimSuffix(string(src), "\n"), "\n")
	content := func(line string) bool {
		return strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#")
	}
	head := slices.IndexFunc(text, keysLinePattern.MatchString)
	first := slices.IndexFunc(text, content)
	at, indent := len(text), "  "
	switch {
	case head >= 0:
		text[head] = keysLinePattern.ReplaceAllString(text[head], "keys: $2")
		text[head] = strings.TrimRight(text[head], " ")
		at = head + 1
		for i := at; i < len(text); i++ {
			if !content(text[i]) {
				continue
			}
			if text[i][0] != ' ' && text[i][0] != '-' {
				break
			}
			if at == head+1 {
				indent = text[i][:len(text[i])-len(strings.TrimLeft(text[i], " "))]
			}
			at = i + 1
		}
	case first >= 0 && strings.HasPrefix(text[first], "-"): // a bare list
		indent = ""
	default:
		lines = "keys:\n" + lines
	}
	lines = strings.TrimSuffix(lines, "\n")
	if indent != "  " {
		lines = strings.ReplaceAll("\n"+lines, "\n  ", "\n"+indent)[1:]
	}
	if len(src) == 0 {
		text, at = nil, 0
	}
	out := []byte(strings.Join(slices.Insert(text, at, lines), "\n") + "\n")
	return out, checkOnlyAppended(src, out)
}

// checkOnlyAppended checks that after contains the same keys as before, followed by one key with a
// new id.
func checkOnlyAppended(before, after []byte) error {
	var older, newer keysFile
	strictyaml.Read("", before, &older, strictyaml.Options{})
	strictyaml.Read("", after, &newer, strictyaml.Options{})
	n := len(older.Keys)
	if len(newer.Keys) != n+1 || n > 0 && !reflect.DeepEqual(older.Keys, newer.Keys[:n]) {
		return errors.New("its keys are not a block list, one entry after the other, to which a key can be " +
			"appended: make the key without --append, and paste its lines")
	}
	if id := newer.Keys[n].ID; slices.ContainsFunc(older.Keys, func(k Key) bool { return k.ID == id }) {
		return fmt.Errorf("it already has a key with the id %q", id)
	}
	return nil
}
