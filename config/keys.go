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

// Key is one API key, known by its hash only.
type Key struct {
	// The name of the key in logs, metrics and pages.
	ID string `yaml:"id"`
	// The hash of the key, sha256: and 64 hexadecimal digits, or a list of hashes for rotation.
	// `penstock key new` prints a new key once, with its hash.
	Hash KeyHashes `yaml:"hash"`
	// The models that the key may use: ids, or patterns that end in *. Aliases grant nothing.
	Models []string `yaml:"models"`
	// What the key may be used for. If omitted: everything.
	Operations []string `yaml:"operations"`
	// When the key expires: a time (RFC 3339), or a date, which means its first moment in UTC. If
	// omitted: never.
	Expires time.Time `yaml:"expires"`
	// Whether the key may be used.
	Active *bool `yaml:"active"`
	// The limits of the key. 0, the default, is no limit.
	Limits KeyLimits `yaml:"limits"`
	// The group (`groups`) of the key. Its limits apply to all keys of the group together, in
	// addition to the key's own. If omitted: none.
	Group string `yaml:"group"`
	// A name that keys share to use each other's cached prompts if a model's prompt_cache is
	// per_key. If omitted: the key does not share.
	CacheGroup string `yaml:"cache_group"`
	// The tiers of deployments that the key's calls may go to. If omitted: all tiers, but no
	// external upstreams, because prompts leave the premises only by consent.
	Tiers []int `yaml:"tiers"`
	// The class of the key's calls (`classes`). If omitted: the first.
	Class string `yaml:"class"`
	// The key's share when calls wait for slots. A key of weight 2 gets twice the tokens of a key of
	// weight 1.
	Weight int `yaml:"weight"`
	// A client certificate that is accepted in place of the key, which then needs no hash.
	Certificate KeyCertificate `yaml:"certificate"`
	Edges       int            `yaml:"-"` // the edges that share the limits (Fleet.Edges)
}

// MaxKeyWeight is the maximum weight of a key.
const MaxKeyWeight = 1000

// Class is a class of calls. Its calls wait behind calls of earlier classes, which take their
// places in the queue.
type Class struct {
	// The name of the class in keys and metrics.
	Name string `yaml:"name"`
	// The share of the slots that the class gets even when earlier classes have calls waiting.
	Floor Percent `yaml:"floor"`
}

// MaxClasses is the maximum number of classes of calls.
const MaxClasses = 8

// Enabled reports whether the key may be used at all (Active is true unless the file says
// otherwise).
func (k *Key) Enabled() bool { return k.Active == nil || *k.Active }

// KeyCertificate identifies a client's certificate by one of two properties.
type KeyCertificate struct {
	// One of the certificate's names: a DNS name, a URI, or a mail or IP address.
	SAN string `yaml:"san"`
	// The hash of the certificate's public key: sha256: and 64 hexadecimal digits.
	SPKI string `yaml:"spki"`
}

// Set reports whether a certificate is named.
func (k KeyCertificate) Set() bool { return k != KeyCertificate{} }

// canonical converts the name to the text that is compared: lower case, except after the host of a
// URI. The format of the name determines its kind. A name that is not an IP address is a URI if it
// has a colon, otherwise a mail address if it has an @, and otherwise a DNS name.
func (k *KeyCertificate) canonical() {
	k.SPKI = strings.ToLower(k.SPKI)
	if _, err := netip.ParseAddr(k.SAN); err == nil || !strings.Contains(k.SAN, ":") {
		k.SAN = strings.ToLower(k.SAN)
	} else if u, err := url.Parse(k.SAN); err == nil { // a malformed URI is refused later
		u.Host = strings.ToLower(u.Host)
		k.SAN = u.String()
	}
}

// Ends returns the time at which the key expires. This is the expiry of its last hash, or its own
// expiry if that is earlier. Zero means never.
func (k *Key) Ends() time.Time {
	end := time.Time{}
	for _, h := range k.Hash {
		if h.Expires.IsZero() || k.Certificate.Set() {
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

// KeyHash is one hash of a key. For rotation a hash may expire before the key.
type KeyHash struct {
	// The hash of the whole key: sha256: and 64 hexadecimal digits.
	Hash string `yaml:"hash"`
	// When this hash expires. If omitted: never.
	Expires time.Time `yaml:"expires"`
}

// HashPrefix is the prefix of every KeyHash.Hash. After Load and Parse, the 64 hexadecimal digits
// after it are in lower case.
const HashPrefix = "sha256:"

// KeyHashes is written as one string or as a list of {hash, expires}.
type KeyHashes []KeyHash

// KeyLimits are the limits of one key. Zero means no limit.
type KeyLimits struct {
	// The most calls that the key may begin in a minute. Further calls get a 429.
	RequestsPerMinute int `yaml:"requests_per_minute"`
	// The most tokens of prompts and answers in a minute. Further calls get a 429.
	TokensPerMinute int `yaml:"tokens_per_minute"`
	// The most calls that the key may have at once. Further calls get a 429.
	Concurrency int `yaml:"concurrency"`
	// How these limits apply to an issuer's tokens with the key's rights: to each caller separately
	// (caller), or to all callers and the key together (key).
	Per string `yaml:"per"`

	// The most tokens of prompts and answers in a day (UTC). Without a ledger all budgets start
	// anew when the edge restarts.
	TokensPerDay int `yaml:"tokens_per_day"`
	// The most tokens of prompts and answers in a month (UTC).
	TokensPerMonth int `yaml:"tokens_per_month"`
	// The most money to spend in a day (UTC), in the currency of the models' pricing.
	SpendPerDay money.Amount `yaml:"spend_per_day"`
	// The most money to spend in a month (UTC), in the currency of the models' pricing.
	SpendPerMonth money.Amount `yaml:"spend_per_month"`

	// The largest JSON body of the key's calls, if that is smaller than limits.request_body.
	RequestBody Bytes `yaml:"request_body"`
	// The largest upload of the key's calls, if that is smaller than limits.upload_body.
	UploadBody Bytes `yaml:"upload_body"`
}

// Group is a group of keys that share limits. Groups are not nested.
type Group struct {
	// The name of the group in keys, refusals and pages.
	ID string `yaml:"id"`
	// The limits of all keys of the group together, in addition to those of each key. 0, the
	// default, is no limit.
	Limits GroupLimits `yaml:"limits"`
	Edges  int         `yaml:"-"` // the edges that share the limits (Fleet.Edges)
}

// GroupLimits bound the keys of a group together. Zero means no limit.
type GroupLimits struct {
	// The most calls that the keys of the group may begin in a minute. Further calls get a 429.
	RequestsPerMinute int `yaml:"requests_per_minute"`
	// The most tokens of prompts and answers in a minute. Further calls get a 429.
	TokensPerMinute int `yaml:"tokens_per_minute"`
	// The most calls that the keys of the group may have at once. Further calls get a 429.
	Concurrency int `yaml:"concurrency"`

	// The most tokens of prompts and answers in a day (UTC). Without a ledger all budgets start anew
	// when the edge restarts.
	TokensPerDay int `yaml:"tokens_per_day"`
	// The most tokens of prompts and answers in a month (UTC).
	TokensPerMonth int `yaml:"tokens_per_month"`
	// The most money to spend in a day (UTC), in the currency of the models' pricing.
	SpendPerDay money.Amount `yaml:"spend_per_day"`
	// The most money to spend in a month (UTC), in the currency of the models' pricing.
	SpendPerMonth money.Amount `yaml:"spend_per_month"`
}

// AsKey returns a key that stands for all keys in the group and has the group's limits. No real key
// can have its id.
func (g *Group) AsKey() Key {
	l := &g.Limits
	return Key{ID: "group " + g.ID, Edges: g.Edges, Limits: KeyLimits{
		RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, Concurrency: l.Concurrency,
		TokensPerDay: l.TokensPerDay, TokensPerMonth: l.TokensPerMonth,
		SpendPerDay: l.SpendPerDay, SpendPerMonth: l.SpendPerMonth,
	}}
}

// BodyLimits bound the bodies of requests. Zero means no limit.
type BodyLimits struct{ RequestBody, UploadBody Bytes }

// Bodies returns the limits on bodies.
func (l *KeyLimits) Bodies() BodyLimits { return BodyLimits{l.RequestBody, l.UploadBody} }

// Budgeted reports whether a daily or monthly budget is set.
func (l *KeyLimits) Budgeted() bool {
	return l.TokensPerDay != 0 || l.TokensPerMonth != 0 ||
		!l.SpendPerDay.Zero() || !l.SpendPerMonth.Zero()
}

// keysFile is the content of a keys_file. A bare list is also accepted.
type keysFile struct {
	Keys []Key `yaml:"keys"`
}

// BindNode accepts a list, or a mapping with `keys`.
func (k *keysFile) BindNode(b *strictyaml.Binder, n strictyaml.Node) {
	if n.IsList() {
		b.List(n.In("keys"), &k.Keys)
		return
	}
	b.Fields(n, k)
}

// readKeys appends the keys of the keys_file to f. Its problems refer to lines of that file.
func (f *File) readKeys() Problems {
	at := f.origin
	at.files = append(at.files, f.KeysFile)
	src, err := strictyaml.ReadRegular(f.KeysFile, strictyaml.MaxFile)
	if err != nil {
		p := at.places.ProblemAt("keys_file", err.Error())
		at.places.MarkBroken("keys_file")
		return Problems{p}
	}
	at.content.Write(src)
	var second keysFile
	d := strictyaml.Read(f.KeysFile, src, &second, strictyaml.Options{
		Least: "list the keys as in the main file, or write [] for none", Retired: retired,
	})
	at.files = append(at.files, d.Files...)
	at.places.Append("keys", d.Places, len(f.Keys))
	f.Keys = append(f.Keys, second.Keys...)
	problems := d.Problems()
	switch {
	case !d.HasContent || len(problems) > 0 || len(second.Keys) > 0:
	case second.Keys == nil: // the file may be truncated
		at.places.MarkBroken("keys")
		problems = append(problems, Problem{
			File: f.KeysFile, Path: "keys",
			Message: "the file lists no keys: write keys: [] for none",
		})
	default:
		at.keyless = true
	}
	if info, err := os.Stat(f.KeysFile); d.HasContent && err == nil {
		problems = append(problems, openToOthers(f.KeysFile, info)...)
	}
	return problems
}

// openToOthers warns if users other than the owner and the group can read a file that contains
// keys.
func openToOthers(path string, info os.FileInfo) Problems {
	if !strictyaml.TooOpen(info) {
		return nil
	}
	return Problems{{
		File: path, Warning: true,
		Message: fmt.Sprintf("the file holds keys and has mode %04o: chmod 640 keeps other users out", info.Mode().Perm()),
	}}
}

// keysLine matches the line that starts a list of keys in block style. An empty list may follow on
// the same line.
var keysLine = regexp.MustCompile(`^keys:[ \t]*(\[[ \t]*\][ \t]*)?(#.*)?$`)

// AppendKey adds a key at the end of the keys of a keys_file or a configuration, and returns the
// new text. lines are the key's lines, which start with " - ". The other lines stay as they are. An
// empty text becomes a keys_file.
func AppendKey(src []byte, lines string) ([]byte, error) {
	text := strings.Split(strings.TrimSuffix(string(src), "\n"), "\n")
	content := func(line string) bool {
		return strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#")
	}
	head := slices.IndexFunc(text, keysLine.MatchString)
	first := slices.IndexFunc(text, content)
	at, indent := len(text), "  "
	switch {
	case head >= 0:
		text[head] = keysLine.ReplaceAllString(text[head], "keys: $2")
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
	return out, onlyAppended(src, out)
}

// onlyAppended checks that the text after has the same keys as the text before, followed by one key
// with a new id.
func onlyAppended(before, after []byte) error {
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
