package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Fleet describes the edges that serve the same keys and engines. If there is no store, they share
// no state, and each edge uses an equal part of the key limits and of the engines' slots.
type Fleet struct {
	// This many edges serve the same keys and engines. Without a store, each edge uses only its
	// part of the limits and slots. The default is one edge or, if fleet.store is set, the number
	// of edges that register in the store. Until an edge has read that number, it uses half of each
	// limit and half of the slots.
	Edges int `yaml:"edges"`
	// The edges share limits and slots through this store.
	Store FleetStore `yaml:"store"`
	// This setting decides what happens while the store is unreachable. divide: each edge uses its
	// part of the limits. open: the edges apply no limits. closed: the edges answer 503.
	Lost string `yaml:"lost"`
	// The store contains more keys, in addition to those in this file.
	Keys FleetKeys `yaml:"keys"`

	// The edges use these secrets to sign drains and their membership. They sign with the first
	// one, and accept signatures by any of them. The default is fleet.keys.secrets.
	Secrets []Secret `yaml:"secrets"`
}

// SigningSecrets returns the secrets with which edges sign their messages to each other.
func (f *Fleet) SigningSecrets() []Secret {
	if len(f.Secrets) > 0 {
		return f.Secrets
	}
	return f.Keys.Secrets
}

// FleetKeys configures the keys in the store.
type FleetKeys struct {
	// These secrets sign the keys in the store. The edges sign with the first one, and accept
	// signatures by any of them. With a secret, `penstock key new --store` creates keys, and
	// `penstock key revoke` revokes them at all edges within a second. Without a secret, the store
	// contains no keys.
	Secrets []Secret `yaml:"secrets"`
	// This setting decides whether an edge can start while the store is unreachable. required: the
	// store must be reachable. cached: an earlier copy of the keys is enough.
	Store string `yaml:"store"`
	// The edge stores its copy of the keys in this file.
	Cache string `yaml:"cache"`
}

// Values of FleetKeys.Store.
const (
	FleetKeyStoreRequired = "required" // the store must be reachable
	FleetKeyStoreCached   = "cached"   // a copy of the keys is enough
)

// Enabled reports whether the store contains keys.
func (k *FleetKeys) Enabled() bool { return len(k.Secrets) > 0 }

// KeyError is a mistake in one key entry.
type KeyError struct {
	Field   string // for example limits.concurrency; empty if the mistake concerns the whole entry
	Message string
}

func (e *KeyError) Error() string { return cmp.Or(e.Field, "entry") + ": " + e.Message }

// ParseKeyEntry reads one entry of a keys_file from JSON. It accepts any class and group; use
// File.CheckKey to check them against a configuration. The error is a *KeyError that contains no
// part of the entry.
func ParseKeyEntry(entry string) (Key, error) {
	switch {
	case strings.ContainsAny(entry, "\n\r") || !json.Valid([]byte(entry)):
		return Key{}, &KeyError{Message: "it is not a key in one line of JSON"}
	case strings.Contains(entry, "$") || strings.Contains(entry, `\u0024`): // the entry could refer to the edge's secrets
		return Key{}, &KeyError{Message: "a value must have no $, which begins a variable in files"}
	}
	rest := "\nupstreams: [{ name: u, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: u }] }]\n"
	var named struct{ Class, Group string }
	_ = json.Unmarshal([]byte(entry), &named) // an entry of the wrong type is rejected below
	if named.Class != "" {
		rest += fmt.Sprintf("classes: [{ name: %q }, { name: %q }]\n", named.Class, named.Class+"-other")
	}
	if named.Group != "" {
		rest += fmt.Sprintf("groups: [{ id: %q, limits: { concurrency: 1 } }]\n", named.Group)
	}
	f, problems := ParseValid("entry", []byte("keys:\n- "+entry+rest), KnownProfiles{Engines: []string{EngineAuto}})
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

// CheckKey checks the class, group and tiers of a key from ParseKeyEntry against f. It warns about model
// names that do not exist in f. Paths in the problems are relative to the key.
func (f *File) CheckKey(k Key) Problems {
	alone := *f
	alone.origin, alone.Keys = nil, []Key{k}
	c := alone.newChecks()
	keyChecks{c}.checkAll()
	problems := c.check.Problems()
	for i := range problems {
		problems[i].Path = strings.TrimPrefix(problems[i].Path, "keys[0].")
	}
	return problems
}

// FleetStore configures the Valkey, or Redis 7.0 or later, through which the edges share key
// limits.
type FleetStore struct {
	// This is the URL of a Valkey, or of Redis 7.0 or later. Use rediss:// for TLS. With sentinels,
	// omit the URL, because the sentinels report the store's address. There is one exception: if the
	// certificates of all stores are valid for the same host name, set rediss:// with that name.
	URL string `yaml:"url"`
	// The edge logs in as this user. If this is empty, the edge logs in as the default user.
	User string `yaml:"user"`
	// This is the password of the user.
	Password Secret `yaml:"password"`
	// These settings define how the edge verifies the store's certificate, and which certificate it
	// presents. If there are sentinels and no URL, any of these settings enables TLS, and each
	// certificate must be valid for the dialled name.
	TLS UpstreamTLS `yaml:"tls"`
	// Set this to true if the store is a cluster.
	Cluster bool `yaml:"cluster"`
	// These sentinels report the store's address and are used instead of the URL.
	Sentinel FleetSentinel `yaml:"sentinel"`
	// All Redis keys of the edges start with this prefix.
	Prefix string `yaml:"prefix"`
	// A call waits at most this long for the store.
	Timeout Duration `yaml:"timeout"`
}

// FleetSentinel finds the primary of the store through sentinels.
type FleetSentinel struct {
	// The sentinels know the store by this name.
	Master string `yaml:"master"`
	// These are the addresses of the sentinels, as HOST:PORT.
	Addresses []string `yaml:"addresses"`
	// The edge logs in to the sentinels as this user. Sentinels have separate users.
	User string `yaml:"user"`
	// This is the password of the sentinels' user.
	Password Secret `yaml:"password"`
}

// HasStore reports whether the fleet has a store.
func (f *Fleet) HasStore() bool { return f.Store.URL != "" || f.Store.Sentinel.Master != "" }

// UsesTLS reports whether connections to the store and its sentinels use TLS.
func (s *FleetStore) UsesTLS() bool {
	return strings.HasPrefix(s.URL, "rediss://") || s.URL == "" && s.TLS != (UpstreamTLS{})
}

// Values of Fleet.Lost.
const (
	StoreLostDivide = "divide"
	StoreLostOpen   = "open"
	StoreLostClosed = "closed"
)

// AssumedEdges is the number of edges assumed until it is known from the configuration or the
// store. A fleet has at least two.
const AssumedEdges = 2

// EdgeCount returns the number of edges that divide the limits and slots among themselves if there
// is no store.
func (f *Fleet) EdgeCount() int {
	switch {
	case f.Edges > 0:
		return f.Edges
	case f.HasStore():
		return AssumedEdges
	}
	return 1
}

// EdgeShare returns one edge's part of n, which the edges divide among themselves. It rounds down,
// so that the sum of the parts does not exceed n. The part is at least 1, because an edge with a
// part of 0 would not serve any calls. If n is 0 (no limit), EdgeShare returns 0. If there are
// fewer than two edges, it returns n.
func EdgeShare(n, edges int) int {
	if n <= 0 || edges <= 1 {
		return n
	}
	return max(1, n/edges)
}

// EdgeLimits returns the key's limits at one edge.
func (k *Key) EdgeLimits() KeyLimits {
	l := k.Limits
	return KeyLimits{
		RequestsPerMinute: EdgeShare(l.RequestsPerMinute, k.Edges),
		TokensPerMinute:   EdgeShare(l.TokensPerMinute, k.Edges),
		Concurrency:       EdgeShare(l.Concurrency, k.Edges),
		TokensPerDay:      EdgeShare(l.TokensPerDay, k.Edges),
		TokensPerMonth:    EdgeShare(l.TokensPerMonth, k.Edges),
		SpendPerDay:       l.SpendPerDay.DividedBy(k.Edges),
		SpendPerMonth:     l.SpendPerMonth.DividedBy(k.Edges),
	}
}

// checkFleet checks the fleet settings, and warns about limits and numbers of slots that are too
// small to be divided.
func (c processChecks) checkFleet() {
	f := &c.file.Fleet
	edges := f.Edges
	if c.positions.HasValue("fleet.edges") {
		c.check.checkRange("fleet.edges", edges, 1, maxEdges)
	} else if f.HasStore() {
		c.check.warn("fleet", "without fleet.edges, an edge that starts while the store is unreachable takes half of each limit "+
			"and of each engine's slots: write fleet.edges: N, the number of edges")
	}
	c.check.checkOneOf("fleet.lost", "fleet.lost", "a choice", f.Lost)
	if (f.Lost == StoreLostOpen || f.Lost == StoreLostClosed) && !f.HasStore() {
		c.check.warn("fleet.lost", "lost has no effect without a store: set fleet.store.url, or remove lost")
	}
	c.checkStore(&f.Store)
	c.checkStoreKeys(f)
	c.checkSecrets(f)
	if edges > maxEdges {
		return
	}
	for i := range c.file.Keys {
		if f.HasStore() {
			break // the edges share the limits through the store
		}
		c.warnIndivisibleLimits(entryPath("keys", i)+".limits", edges, &c.file.Keys[i].Limits)
	}
	for i := range c.file.Groups {
		if f.HasStore() {
			break // the edges share the limits through the store
		}
		its := c.file.Groups[i].AsKey()
		c.warnIndivisibleLimits(entryPath("groups", i)+".limits", edges, &its.Limits)
	}
	for i := range c.file.Upstreams {
		p, at := c.file.Upstreams[i].Concurrency, entryPath("upstreams", i)
		if p.IsExact() {
			continue
		}
		c.warnIndivisible(at, edges, numericMember{"concurrency", p.Shared})
		c.warnIndivisible(at+".concurrency", edges, numericMember{"text", p.Text}, numericMember{"vision", p.Vision},
			numericMember{"audio", p.Audio})
	}
}

// warnIndivisibleLimits warns about limits that are smaller than the number of edges.
func (c processChecks) warnIndivisibleLimits(at string, edges int, l *KeyLimits) {
	c.warnIndivisible(at, edges, numericMember{"requests_per_minute", l.RequestsPerMinute},
		numericMember{"tokens_per_minute", l.TokensPerMinute}, numericMember{"concurrency", l.Concurrency},
		numericMember{"tokens_per_day", l.TokensPerDay}, numericMember{"tokens_per_month", l.TokensPerMonth})
}

func (c processChecks) checkStore(s *FleetStore) {
	const path = "fleet.store"
	rest, found := strings.CutPrefix(strings.Replace(s.URL, "rediss://", "redis://", 1), "redis://")
	u, err := parseHTTPURL("http://" + rest)
	switch { // messages never show the URL, because it may contain a password
	case s.URL == "":
	case strings.Contains(s.URL, "@"):
		c.check.fail(path+".url", "the url must not hold a user or a password: set user and password beside it")
	case !found || err != nil || strings.Trim(u.Path, "/") != "":
		c.check.fail(path+".url", "this is not a store's address: write redis://HOST:PORT, or rediss:// for TLS")
	}
	c.checkClientTLS(path+".tls", s.TLS, s.URL, "redis", "rediss")
	if (s.Sentinel.Master == "") != (len(s.Sentinel.Addresses) == 0) {
		c.check.fail(path+".sentinel", "master and addresses go together: give both or none")
	} else if s.Sentinel.Master == "" && c.positions.HasValue(path+".sentinel") {
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
	c.check.checkVisibleName(path+".prefix", s.Prefix)
	if n := len(s.Prefix); n == 0 || n > 64 || strings.ContainsAny(s.Prefix, "{}") {
		c.check.fail(path+".prefix", "it must have 1 to 64 characters and no braces, which a cluster reads as hash tags")
	}
}

// checkSecrets checks the secrets with which edges sign their messages to each other.
func (c processChecks) checkSecrets(f *Fleet) {
	const path = "fleet.secrets"
	c.checkSecretLengths(path, f.Secrets)
	switch {
	case len(f.Secrets) > 0 && !f.HasStore():
		c.check.fail(path, "secrets sign what edges write to a store: set fleet.store.url, or remove secrets")
	case f.HasStore() && len(f.SigningSecrets()) == 0:
		c.check.warn("fleet", "without fleet.secrets anyone who can write to the store can drain engines and pose as edges: "+
			"give all edges the same secret, such as from head -c 32 /dev/urandom | base64")
	}
}

func (c processChecks) checkSecretLengths(path string, secrets []Secret) {
	for i, secret := range secrets {
		if len(secret) < minSealKeyLen {
			c.check.fail(entryPath(path, i),
				"the secret is shorter than %d characters: make one with head -c 32 /dev/urandom | base64", minSealKeyLen)
		}
	}
}

func (c processChecks) checkStoreKeys(f *Fleet) {
	const path = "fleet.keys"
	k := &f.Keys
	c.checkSecretLengths(path+".secrets", k.Secrets)
	c.check.checkOneOf(path+".store", "fleet.keys.store", "a choice", k.Store)
	switch {
	case k.Enabled() && !f.HasStore():
		c.check.fail(path, "keys in the store need a store: set fleet.store.url, or remove keys")
	case !k.Enabled() && (k.Store != FleetKeyStoreRequired || k.Cache != ""):
		c.check.fail(path+".secrets", "keys in the store are signed: set secrets, or remove keys")
	case (k.Store == FleetKeyStoreCached) != (k.Cache != ""):
		c.check.fail(path+".cache", "store: cached and the file of the copy go together: give both or none")
	case !k.Enabled() && c.positions.HasValue(path+".store"):
		c.check.warn(path+".store", "without keys in the store this has no effect: set fleet.keys.secrets, or remove it")
	case k.Enabled() && c.file.Auth == AuthNone && len(c.file.Keys) == 0:
		c.check.warn(path, "auth: none disables the store's keys: remove one of the two")
	}
}

// maxEdges is far above the size of any real fleet. A larger number is probably a typing error.
const maxEdges = 1000

func (c processChecks) warnIndivisible(path string, edges int, numbers ...numericMember) {
	for _, m := range numbers {
		if m.n > 0 && m.n < edges {
			c.check.warn(path+"."+m.key, "%d is less than the %d edges of the fleet, and each of them allows at least 1: "+
				"the fleet allows up to %d", m.n, edges, edges)
		}
	}
}
