package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Fleet describes the edges that serve the same keys and engines. Without a store they share no
// state, so each edge takes an equal part of the key limits and of the engines' slots.
type Fleet struct {
	// How many edges serve these keys and engines. Without a store each edge uses only its part of
	// the limits and slots. If omitted: one, or with fleet.store the number of edges that register
	// there; an edge that has not yet read that number takes half of each limit and of the slots.
	Edges int `yaml:"edges"`
	// The store by which edges share limits and slots.
	Store FleetStore `yaml:"store"`
	// What happens while the store is lost: divide gives each edge its part of the limits, open
	// applies no limits, closed answers 503.
	Lost string `yaml:"lost"`
	// Keys in the store, in addition to those of this file.
	Keys FleetKeys `yaml:"keys"`

	// Secrets with which edges sign drains and their membership: the first signs, all verify. If
	// omitted: those of fleet.keys.
	Secrets []Secret `yaml:"secrets"`
}

// SigningSecrets returns the secrets that edges use to sign their messages to each other.
func (f *Fleet) SigningSecrets() []Secret {
	if len(f.Secrets) > 0 {
		return f.Secrets
	}
	return f.Keys.Secrets
}

// FleetKeys configures keys in the store, in addition to those of the file.
type FleetKeys struct {
	// Secrets that sign keys in the store: the first signs, all verify. With a secret, `penstock
	// key new --store` makes keys and `penstock key revoke` ends them at all edges within a second.
	// If omitted: the store has no keys.
	Secrets []Secret `yaml:"secrets"`
	// What an edge needs at its start: the store itself (required), or either the store or an
	// earlier copy of its keys (cached).
	Store string `yaml:"store"`
	// The file in which the edge keeps its copy of the keys in the store.
	Cache string `yaml:"cache"`
}

// Values of FleetKeys.Store.
const (
	KeysRequired = "required" // the store
	KeysCached   = "cached"   // the store or a copy
)

// Enabled reports whether the store holds keys.
func (k *FleetKeys) Enabled() bool { return len(k.Secrets) > 0 }

// KeyError reports what is wrong with a single key entry.
type KeyError struct {
	Field   string // such as limits.concurrency; empty: the whole entry
	Message string
}

func (e *KeyError) Error() string { return cmp.Or(e.Field, "entry") + ": " + e.Message }

// ReadKey reads one entry of a keys_file from JSON. It accepts any class and group: File.CheckKey
// checks them against a configuration. The error is a *KeyError and contains no part of the entry.
func ReadKey(entry string) (Key, error) {
	switch {
	case strings.ContainsAny(entry, "\n\r") || !json.Valid([]byte(entry)):
		return Key{}, &KeyError{Message: "it is not a key in one line of JSON"}
	case strings.Contains(entry, "$") || strings.Contains(entry, `\u0024`): // the edge's own secrets
		return Key{}, &KeyError{Message: "a value must have no $, which begins a variable in files"}
	}
	rest := "\nupstreams: [{ name: u, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: u }] }]\n"
	var named struct{ Class, Group string }
	_ = json.Unmarshal([]byte(entry), &named) // an entry that is not text fails below
	if named.Class != "" {
		rest += fmt.Sprintf("classes: [{ name: %q }, { name: %q }]\n", named.Class, named.Class+"-other")
	}
	if named.Group != "" {
		rest += fmt.Sprintf("groups: [{ id: %q, limits: { concurrency: 1 } }]\n", named.Group)
	}
	f, problems := ParseValid("entry", []byte("keys:\n- "+entry+rest), Known{Engines: []string{EngineAuto}})
	if f == nil {
		bad := problems.Errors()[0]
		_, member, _ := strings.Cut(bad.Path, ".")
		switch {
		case strings.HasPrefix(bad.Path, "classes"):
			member = "class"
		case strings.HasPrefix(bad.Path, "groups"):
			member = "group"
		}
		return Key{}, &KeyError{member, bad.Message}
	}
	if len(f.Keys) != 1 {
		return Key{}, &KeyError{Message: "it is not one key"}
	}
	return f.Keys[0], nil
}

// CheckKey returns what is wrong with a key from ReadKey under the configuration f: its class,
// group and tiers. It warns of model names that f lacks. Paths are relative to the key.
func (f *File) CheckKey(k Key) Problems {
	alone := *f
	alone.origin, alone.Keys = nil, []Key{k}
	c := alone.checks()
	keyChecks{c}.all()
	problems := c.check.Problems()
	for i := range problems {
		problems[i].Path = strings.TrimPrefix(problems[i].Path, "keys[0].")
	}
	return problems
}

// FleetStore is the Valkey, or Redis from 7.0 on, through which the edges share key limits.
type FleetStore struct {
	// The address of a Valkey, or Redis from 7.0 on; rediss:// for TLS. Sentinels give the address
	// themselves: with them, omit it, or write rediss:// with the host name that all their
	// certificates have.
	URL string `yaml:"url"`
	// The user that the edge logs in as. Empty: the default user.
	User string `yaml:"user"`
	// The password of that user.
	Password Secret `yaml:"password"`
	// How the store's certificate is verified, and which certificate the edge presents. With
	// sentinels and no URL, any of these settings switches TLS on, and each certificate must be
	// valid for the dialled name.
	TLS UpstreamTLS `yaml:"tls"`
	// Whether the store is a cluster.
	Cluster bool `yaml:"cluster"`
	// Sentinels that know the store's address, instead of a URL.
	Sentinel FleetSentinel `yaml:"sentinel"`
	// The prefix of the edge's keys in the store.
	Prefix string `yaml:"prefix"`
	// The longest that a call waits for the store.
	Timeout Duration `yaml:"timeout"`
}

// FleetSentinel finds the store's primary through sentinels, instead of by a URL.
type FleetSentinel struct {
	// The name under which the sentinels know the store.
	Master string `yaml:"master"`
	// HOST:PORT of each sentinel.
	Addresses []string `yaml:"addresses"`
	// The user that the edge logs in as at the sentinels, which have their own users.
	User string `yaml:"user"`
	// The password of that user.
	Password Secret `yaml:"password"`
}

// Shared reports whether the fleet has a store.
func (f *Fleet) Shared() bool { return f.Store.URL != "" || f.Store.Sentinel.Master != "" }

// Encrypted reports whether the connections to the store, and to its sentinels, are TLS.
func (s *FleetStore) Encrypted() bool {
	return strings.HasPrefix(s.URL, "rediss://") || s.URL == "" && s.TLS != (UpstreamTLS{})
}

// Values of Fleet.Lost.
const (
	LostDivide = "divide"
	LostOpen   = "open"
	LostClosed = "closed"
)

// UnknownEdges is the divisor of shared numbers while neither the file nor the store has given the
// number of edges: a fleet has at least two.
const UnknownEdges = 2

// Parts returns the divisor of shared numbers without the store: the number of edges.
func (f *Fleet) Parts() int {
	switch {
	case f.Edges > 0:
		return f.Edges
	case f.Shared():
		return UnknownEdges
	}
	return 1
}

// ShareOf returns one edge's share of a number that a fleet divides. It rounds down, so that the
// sum of the shares does not exceed n. The share is at least 1, because an edge with a share of 0
// would serve no call. If n is 0, there is no limit, and ShareOf returns 0. With 0 or 1 edges it
// returns n.
func ShareOf(n, edges int) int {
	if n <= 0 || edges <= 1 {
		return n
	}
	return max(1, n/edges)
}

// Share returns the key's limits at a single edge.
func (k *Key) Share() KeyLimits {
	l := k.Limits
	return KeyLimits{
		RequestsPerMinute: ShareOf(l.RequestsPerMinute, k.Edges),
		TokensPerMinute:   ShareOf(l.TokensPerMinute, k.Edges),
		Concurrency:       ShareOf(l.Concurrency, k.Edges),
		TokensPerDay:      ShareOf(l.TokensPerDay, k.Edges),
		TokensPerMonth:    ShareOf(l.TokensPerMonth, k.Edges),
		SpendPerDay:       l.SpendPerDay.Over(k.Edges),
		SpendPerMonth:     l.SpendPerMonth.Over(k.Edges),
	}
}

// fleet checks the settings for sharing between edges, and warns of numbers that are too small to
// divide.
func (c processChecks) fleet() {
	f := &c.file.Fleet
	edges := f.Edges
	if c.places.Has("fleet.edges") {
		c.check.number("fleet.edges", edges, 1, maxEdges)
	} else if f.Shared() {
		c.check.warn("fleet", "without fleet.edges, an edge that starts while the store is unreachable takes half of each limit "+
			"and of each engine's slots: write fleet.edges: N, the number of edges")
	}
	c.check.oneOf("fleet.lost", "fleet.lost", "a choice", f.Lost)
	if (f.Lost == LostOpen || f.Lost == LostClosed) && !f.Shared() {
		c.check.warn("fleet.lost", "lost has no effect without a store: set fleet.store.url, or remove lost")
	}
	c.store(&f.Store)
	c.storeKeys(f)
	c.secrets(f)
	if edges > maxEdges {
		return
	}
	for i := range c.file.Keys {
		if f.Shared() {
			break // they are shared, not divided
		}
		c.indivisibleLimits(element("keys", i)+".limits", edges, &c.file.Keys[i].Limits)
	}
	for i := range c.file.Groups {
		if f.Shared() {
			break // likewise
		}
		its := c.file.Groups[i].AsKey()
		c.indivisibleLimits(element("groups", i)+".limits", edges, &its.Limits)
	}
	for i := range c.file.Upstreams {
		p, at := c.file.Upstreams[i].Concurrency, element("upstreams", i)
		if p.Exact() {
			continue
		}
		c.indivisible(at, edges, member{"concurrency", p.Shared})
		c.indivisible(at+".concurrency", edges, member{"text", p.Text}, member{"vision", p.Vision},
			member{"audio", p.Audio})
	}
}

// indivisibleLimits warns of limits that are too small to be divided among the edges.
func (c processChecks) indivisibleLimits(at string, edges int, l *KeyLimits) {
	c.indivisible(at, edges, member{"requests_per_minute", l.RequestsPerMinute},
		member{"tokens_per_minute", l.TokensPerMinute}, member{"concurrency", l.Concurrency},
		member{"tokens_per_day", l.TokensPerDay}, member{"tokens_per_month", l.TokensPerMonth})
}

// store checks the store's address, and the maximum time that a call may wait for the store.
func (c processChecks) store(s *FleetStore) {
	const path = "fleet.store"
	rest, found := strings.CutPrefix(strings.Replace(s.URL, "rediss://", "redis://", 1), "redis://")
	u, err := checkHTTP("http://" + rest)
	switch { // messages never show the address, because it may contain a password
	case s.URL == "":
	case strings.Contains(s.URL, "@"):
		c.check.fail(path+".url", "the url must not hold a user or a password: set user and password beside it")
	case !found || err != nil || strings.Trim(u.Path, "/") != "":
		c.check.fail(path+".url", "this is not a store's address: write redis://HOST:PORT, or rediss:// for TLS")
	}
	c.clientTLS(path+".tls", s.TLS, s.URL, "redis", "rediss")
	if (s.Sentinel.Master == "") != (len(s.Sentinel.Addresses) == 0) {
		c.check.fail(path+".sentinel", "master and addresses go together: give both or none")
	} else if s.Sentinel.Master == "" && c.places.Has(path+".sentinel") {
		c.check.fail(path+".sentinel", "it names no sentinels: set master and addresses, or remove it")
	}
	if s.Sentinel.Master == "" && (s.Sentinel.User != "" || s.Sentinel.Password != "") {
		c.check.fail(path+".sentinel", "user and password are for sentinels: set master and addresses, or remove both")
	}
	if s.Cluster && s.Sentinel.Master != "" {
		c.check.fail(path+".cluster", "a store is a cluster or has sentinels: remove one of the two")
	}
	switch {
	case s.Sentinel.Master != "" && strings.HasPrefix(s.URL, "redis://"):
		c.check.warn(path+".url", "the sentinels give the store's address, so url has no effect: remove it")
	case s.URL == "" && s.Sentinel.Master == "" && (s.Cluster || s.User != "" || s.Password != ""):
		c.check.fail(path, "a store needs a url: write redis://HOST:PORT, or rediss:// for TLS")
	}
	if s.Timeout < Duration(time.Millisecond) || s.Timeout > Duration(time.Second) {
		c.check.fail(path+".timeout", "%s is out of range: 1ms to 1s; calls wait up to this long", s.Timeout)
	}
	c.check.visibleName(path+".prefix", s.Prefix)
	if n := len(s.Prefix); n == 0 || n > 64 || strings.ContainsAny(s.Prefix, "{}") {
		c.check.fail(path+".prefix", "it must have 1 to 64 characters and no braces, which a cluster reads as hash tags")
	}
}

// secrets checks the secrets that edges use to sign their messages to each other.
func (c processChecks) secrets(f *Fleet) {
	const path = "fleet.secrets"
	c.leastSecrets(path, f.Secrets)
	switch {
	case len(f.Secrets) > 0 && !f.Shared():
		c.check.fail(path, "secrets sign what edges write to a store: set fleet.store.url, or remove secrets")
	case f.Shared() && len(f.SigningSecrets()) == 0:
		c.check.warn("fleet", "without fleet.secrets anyone who can write to the store can drain engines and pose as edges: "+
			"give all edges the same secret, such as from head -c 32 /dev/urandom | base64")
	}
}

// leastSecrets checks that secrets are long enough.
func (c processChecks) leastSecrets(path string, secrets []Secret) {
	for i, secret := range secrets {
		if len(secret) < leastSealKey {
			c.check.fail(element(path, i),
				"the secret is shorter than %d characters: make one with head -c 32 /dev/urandom | base64", leastSealKey)
		}
	}
}

// storeKeys checks the secrets that sign key entries, and whether an edge may start without the
// store.
func (c processChecks) storeKeys(f *Fleet) {
	const path = "fleet.keys"
	k := &f.Keys
	c.leastSecrets(path+".secrets", k.Secrets)
	c.check.oneOf(path+".store", "fleet.keys.store", "a choice", k.Store)
	switch {
	case k.Enabled() && !f.Shared():
		c.check.fail(path, "keys in the store need a store: set fleet.store.url, or remove keys")
	case !k.Enabled() && (k.Store != KeysRequired || k.Cache != ""):
		c.check.fail(path+".secrets", "keys in the store are signed: set secrets, or remove keys")
	case (k.Store == KeysCached) != (k.Cache != ""):
		c.check.fail(path+".cache", "store: cached and the file of the copy go together: give both or none")
	case !k.Enabled() && c.places.Has(path+".store"):
		c.check.warn(path+".store", "without keys in the store this has no effect: set fleet.keys.secrets, or remove it")
	case k.Enabled() && c.file.Auth == AuthNone && len(c.file.Keys) == 0:
		c.check.warn(path, "auth: none disables the store's keys: remove one of the two")
	}
}

// maxEdges is far above the size of any real fleet, so that a typing error is noticed.
const maxEdges = 1000

func (c processChecks) indivisible(path string, edges int, numbers ...member) {
	for _, m := range numbers {
		if m.n > 0 && m.n < edges {
			c.check.warn(path+"."+m.key, "%d is less than the %d edges of the fleet, and each of them allows at least 1: "+
				"the fleet allows up to %d", m.n, edges, edges)
		}
	}
}
