package config

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// keys checks every key, those of the keys_file included.
func (c *checker) keys() {
	ids, hashes := map[string]string{}, map[string]string{}
	for i := range c.file.Keys {
		k, at := &c.file.Keys[i], element("keys", i)
		c.name(at+".id", "a key needs an id", "key id", k.ID, ids)
		c.hashes(at+".hash", k, hashes)
		c.scopes(at, k)
		c.visibleName(at+".cache_group", k.CacheGroup)
		c.atLeast0(at+".limits.requests_per_minute", int64(k.Limits.RequestsPerMinute))
		c.atLeast0(at+".limits.tokens_per_minute", int64(k.Limits.TokensPerMinute))
		c.number(at+".limits.concurrency", k.Limits.Concurrency, 0, 1e6)
	}
}

// keyInForce warns when there are keys and none of them is taken now. One that has ended beside others is no mistake.
func (c *checker) keyInForce() {
	now := time.Now()
	ended := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	why := "" // the first key is not in force
	for i := range c.file.Keys {
		k, at := &c.file.Keys[i], element("keys", i)
		switch {
		case !k.Enabled():
			at += ".active"
		case ended(k.Expires):
			at += ".expires"
		case len(k.Hash) > 0 && !slices.ContainsFunc(k.Hash, func(h KeyHash) bool { return !ended(h.Expires) }):
			at += ".hash"
		default:
			return
		}
		why = cmp.Or(why, at)
	}
	if why != "" && !c.anyBroken("keys") {
		c.warn(why, `no key is in force, for all have expired or are switched off, so every call is refused: "penstock key new" makes one`)
	}
}

// hashes checks the hashes of one key against their form and against all others: a hash that stands twice would leave open
// whose call it is. No message holds one.
func (c *checker) hashes(path string, k *Key, seen map[string]string) {
	if len(k.Hash) == 0 {
		c.fail(path, `a key needs a hash: "penstock key new" makes a key and prints it`)
	}
	for i, h := range k.Hash {
		at := path
		if c.has(element(path, i)) {
			at = element(path, i)
		}
		digits, ok := strings.CutPrefix(h.Hash, HashPrefix)
		switch first, twice := seen[h.Hash]; {
		case h.Hash == "":
			c.fail(at, "an entry needs a hash")
		case !ok && !strings.Contains(h.Hash, ":"):
			c.fail(at, `this is not a hash: write what "penstock key hash" prints for the key, never the key itself`)
		case !ok:
			c.fail(at, "this is not a hash: it must begin with %s", HashPrefix)
		case len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "":
			c.fail(at, "%s must be followed by 64 hexadecimal digits; here are %d characters", HashPrefix, len(digits))
		case twice:
			c.fail(at, "two keys have one hash: first %s", c.place(first, at))
		default:
			seen[h.Hash] = at
		}
	}
}

// scopes checks what a key may do.
func (c *checker) scopes(path string, k *Key) {
	if len(k.Models) == 0 {
		c.fail(path+".models", `the key has access to no model: list some, or leave models out for all; "active: false" switches a key off`)
	}
	if len(k.Operations) == 0 {
		c.fail(path+".operations", `the key has access to no operation: list some, or leave operations out for all; "active: false" switches a key off`)
	}
	c.eachOneOf(path+".operations", "keys.operations", "an operation", k.Operations)
	unsure := c.namesUnsure("models", "id", "aliases")
	for i, pattern := range k.Models {
		at := element(path+".models", i)
		switch {
		case pattern == "":
			c.fail(at, "an empty name matches no model")
		case strings.Contains(strings.TrimSuffix(pattern, "*"), "*"):
			c.fail(at, "%s: a * is allowed at the end only", c.show(at, pattern))
		case pattern != "*" && !unsure && !c.anyModel(pattern):
			c.warn(at, "no model matches %s%s", c.show(at, pattern), c.didYouMean(pattern, c.modelIDs))
		}
	}
}

// anyModel reports whether a key's pattern matches the id or an alias of a model.
func (c *checker) anyModel(pattern string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	matches := func(name string) bool {
		return name == pattern || open && strings.HasPrefix(strings.TrimSuffix(name, "*"), prefix)
	}
	for i := range c.file.Models {
		if m := &c.file.Models[i]; matches(m.ID) || slices.ContainsFunc(m.Aliases, matches) {
			return true
		}
	}
	return false
}

func (c *checker) modelIDs() []string {
	ids := make([]string, len(c.file.Models))
	for i := range c.file.Models {
		ids[i] = c.file.Models[i].ID
	}
	return ids
}

// name checks the name of something of ours: it must be there, be the only one, and look the same in a log line, a metric's
// label and a shell.
func (c *checker) name(path, missing, what, name string, seen map[string]string) {
	c.visibleName(path, name)
	c.unique(path, missing, what, name, seen)
}

func (c *checker) visibleName(path, name string) {
	if strings.ContainsFunc(name, func(r rune) bool { return !visible(r) || r == ' ' || r == '"' || r == '\\' }) {
		c.fail(path, "%s must have no blanks, quotes, backslashes or control characters", c.show(path, name))
	}
}

// modelName checks a name that clients send. Engines list files as models, so blanks and quotes are borne with.
func (c *checker) modelName(path, missing, what, name string, seen map[string]string) {
	if !presentable(name) {
		c.fail(path, "%s must have no control characters, and no blanks around it", c.show(path, name))
	}
	c.unique(path, missing, what, name, seen)
}

func visible(r rune) bool { return unicode.IsPrint(r) && r != unicode.ReplacementChar }

// unique checks that a name is there and that seen, names to paths, does not have it yet.
func (c *checker) unique(path, missing, what, name string, seen map[string]string) {
	first, twice := seen[name]
	switch {
	case name == "":
		c.fail(path, "%s", missing)
		return
	case len(name) > 256:
		c.fail(path, "the %s is longer than 256 bytes", what)
	case twice:
		c.fail(path, "the %s %s is used twice: first %s", what, c.show(path, name), c.place(first, path))
		return
	}
	seen[name] = path
}

// has reports whether the file has a value at path.
func (c *checker) has(path string) bool {
	if c.file.origin == nil {
		return false
	}
	_, ok := c.file.origin.marks[path]
	return ok
}
