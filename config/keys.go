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

// Key is one API key. Only its hash is known.
type Key struct {
	// The name of the key in logs, metrics and pages.
	ID string `yaml:"id"`
	// The hash of the key, sha256: and 64 hexadecimal digits, or a list of hashes for rotation.
	// `penstock key new` prints a key once, with its hash.
	Hash KeyHashes `yaml:"hash"`
	// The models that the key may use: ids, or patterns that end in *. Aliases grant nothing.
	Models []string `yaml:"models"`
	// What the key may be used for. Left out: everything.
	Operations []string `yaml:"operations"`
	// When the key ends: a time (RFC 3339) or a date, which means its first moment in UTC. Left out:
	// never.
	Expires time.Time `yaml:"expires"`
	// Whether the key may be used.
	Active *bool `yaml:"active"`
	// The limits of the key. 0, the default, is no limit.
	Limits KeyLimits `yaml:"limits"`
	// A name that keys share to use each other's cached prompts where a model's prompt_cache is
	// per_key. Left out: the key shares with none.
	CacheGroup string `yaml:"cache_group"`
	// The tiers of deployments that the key's calls may go to. Left out: all, but no external
	// upstream: prompts leave the house by consent only.
	Tiers []int `yaml:"tiers"`
	// The class of the key's calls (`classes`). Left out: the first.
	Class string `yaml:"class"`
	// The key's share when calls wait for slots. A key of weight 2 gets twice the tokens of a key of
	// weight 1.
	Weight int `yaml:"weight"`
	// A client certificate that stands for the key, which needs no hash then.
	Certificate KeyCertificate `yaml:"certificate"`
	Edges       int            `yaml:"-"` // those that share the limits: Fleet.Edges
}

// MaxKeyWeight bounds a key's weight.
const MaxKeyWeight = 1000

// Class is a class of calls. Those of a class wait behind those of the classes before it, and lose
// their places to them.
type Class struct {
	// The name of the class in keys and metrics.
	Name string `yaml:"name"`
	// The share of the slots that the class gets whatever earlier classes ask for.
	Floor Percent `yaml:"floor"`
}

// MaxClasses bounds the classes of calls.
const MaxClasses = 8

// Enabled reports whether the key may be used at all (Active is true unless the file says
// otherwise).
func (k *Key) Enabled() bool { return k.Active == nil || *k.Active }

// KeyCertificate names a client's certificate, by one of two marks.
type KeyCertificate struct {
	// One of the certificate's names: a DNS name, URI, mail or IP address.
	SAN string `yaml:"san"`
	// The hash of the certificate's public key: sha256: and 64 hexadecimal digits.
	SPKI string `yaml:"spki"`
}

// Set reports whether a certificate is named.
func (k KeyCertificate) Set() bool { return k != KeyCertificate{} }

// canonical turns the name into the form that is compared: small letters, but for what stands
// behind the host of a URI. A name is an IP address, a URI, a mail address or a DNS name, by its
// form: whatever has a colon and is no IP address is a URI, and of the rest whatever has an @ is a
// mail address.
func (k *KeyCertificate) canonical() {
	k.SPKI = strings.ToLower(k.SPKI)
	if _, err := netip.ParseAddr(k.SAN); err == nil || !strings.Contains(k.SAN, ":") {
		k.SAN = strings.ToLower(k.SAN)
	} else if u, err := url.Parse(k.SAN); err == nil { // another one is refused later
		u.Host = strings.ToLower(u.Host)
		k.SAN = u.String()
	}
}

// Ends is when the key ends: the end of its last hash, or its own where that is earlier. Zero: never.
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

// KeyHash is one hash of a key with an optional end of its own, for rotation.
type KeyHash struct {
	// The hash of the whole key: sha256: and 64 hexadecimal digits.
	Hash string `yaml:"hash"`
	// When this hash ends. Left out: never.
	Expires time.Time `yaml:"expires"`
}

// HashPrefix begins every KeyHash.Hash; 64 hexadecimal digits follow, which Load and Parse turn
// into small letters.
const HashPrefix = "sha256:"

// KeyHashes is written as one string or as a list of {hash, expires}.
type KeyHashes []KeyHash

// KeyLimits bound one key; zero is "no limit".
type KeyLimits struct {
	// Calls that the key may begin in a minute. More get a 429.
	RequestsPerMinute int `yaml:"requests_per_minute"`
	// Tokens of prompts and answers in a minute. More get a 429.
	TokensPerMinute int `yaml:"tokens_per_minute"`
	// Calls that the key may have at once. More get a 429.
	Concurrency int `yaml:"concurrency"`
	// Whose limits these are when tokens of an issuer have the key's rights: caller gives them to each
	// caller alone, key to all callers and the key together.
	Per string `yaml:"per"`

	// Tokens of prompts and answers in a day (UTC). Without a ledger budgets start anew with the edge.
	TokensPerDay int `yaml:"tokens_per_day"`
	// Tokens of prompts and answers in a month (UTC).
	TokensPerMonth int `yaml:"tokens_per_month"`
	// Money spent in a day (UTC), by the models' pricing and in its currency.
	SpendPerDay money.Amount `yaml:"spend_per_day"`
	// Money spent in a month (UTC), by the models' pricing and in its currency.
	SpendPerMonth money.Amount `yaml:"spend_per_month"`

	// The largest JSON body of the key's calls, where that is smaller than limits.request_body.
	RequestBody Bytes `yaml:"request_body"`
	// The largest upload of the key's calls, where that is smaller than limits.upload_body.
	UploadBody Bytes `yaml:"upload_body"`
}

// BodyLimits bound the bodies of requests. Zero is no limit.
type BodyLimits struct{ RequestBody, UploadBody Bytes }

// Bodies are the limits on bodies.
func (l *KeyLimits) Bodies() BodyLimits { return BodyLimits{l.RequestBody, l.UploadBody} }

// Budgeted reports whether there is a budget of a day or a month.
func (l *KeyLimits) Budgeted() bool {
	return l.TokensPerDay != 0 || l.TokensPerMonth != 0 ||
		!l.SpendPerDay.Zero() || !l.SpendPerMonth.Zero()
}

// keysFile is the form of the second file. A bare list is accepted, too.
type keysFile struct {
	Keys []Key `yaml:"keys"`
}

// BindNode accepts a list, or a mapping with keys.
func (k *keysFile) BindNode(b *strictyaml.Binder, n strictyaml.Node) {
	if n.IsList() {
		b.List(n.In("keys"), &k.Keys)
		return
	}
	b.Fields(n, k)
}

// readKeys appends the keys of the keys_file to f. Its problems stand in that file's own lines.
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
		Least: "list the keys as in the main file, or write [] when there are to be none", Retired: retired,
	})
	at.files = append(at.files, d.Files...)
	at.places.Append("keys", d.Places, len(f.Keys))
	f.Keys = append(f.Keys, second.Keys...)
	problems := d.Problems()
	switch {
	case !d.HasContent || len(problems) > 0 || len(second.Keys) > 0:
	case second.Keys == nil: // as half a file would look
		at.places.MarkBroken("keys")
		problems = append(problems, Problem{
			File: f.KeysFile, Path: "keys",
			Message: "the file lists no keys: write keys: [] when there are to be none",
		})
	default:
		at.keyless = true
	}
	if info, err := os.Stat(f.KeysFile); d.HasContent && err == nil {
		problems = append(problems, openToOthers(f.KeysFile, info)...)
	}
	return problems
}

// openToOthers warns when a file that holds keys can be read by more than its owner and group.
func openToOthers(path string, info os.FileInfo) Problems {
	if !strictyaml.TooOpen(info) {
		return nil
	}
	return Problems{{
		File: path, Warning: true,
		Message: fmt.Sprintf("the file holds keys and has mode %04o: chmod 640 keeps other users out", info.Mode().Perm()),
	}}
}

// keysLine begins a list of keys in block form; an empty list may be written behind it.
var keysLine = regexp.MustCompile(`^keys:[ \t]*(\[[ \t]*\][ \t]*)?(#.*)?$`)

// AppendKey returns the text of a keys_file, or of a configuration, with another key at the end of
// its keys. lines are those of the key, which begin with "  - ". Nothing else of the text changes.
// An empty text becomes a keys_file.
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

// onlyAppended checks that a text has the keys of an older one and one more, which has an id of its
// own.
func onlyAppended(before, after []byte) error {
	var older, newer keysFile
	strictyaml.Read("", before, &older, strictyaml.Options{})
	strictyaml.Read("", after, &newer, strictyaml.Options{})
	n := len(older.Keys)
	if len(newer.Keys) != n+1 || n > 0 && !reflect.DeepEqual(older.Keys, newer.Keys[:n]) {
		return errors.New("its keys are not a list with lines of its own for each, to which a key can be " +
			"appended: paste the lines of one that is made without --append")
	}
	if id := newer.Keys[n].ID; slices.ContainsFunc(older.Keys, func(k Key) bool { return k.ID == id }) {
		return fmt.Errorf("it has a key of the name %q already", id)
	}
	return nil
}
