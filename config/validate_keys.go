package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"penstock/config/money"
	"penstock/config/suggest"
)

// keyChecks checks the keys, including those in the keys_file.
type keyChecks struct{ checks }

func (c keyChecks) checkAll() {
	n := len(c.file.Keys)
	ids, hashes, marks := make(map[string]string, n), make(map[string]string, n), map[CertificateIdentity]string{}
	for i := range n {
		k, at := &c.file.Keys[i], entryPath("keys", i)
		c.check.checkName(at+".id", "a key needs an id", "key id", k.ID, ids)
		c.checkHashes(at+".hash", k, hashes)
		c.checkCertificate(at+".certificate", &k.Certificate, marks)
		c.checkScopes(at, k)
		c.checkGroup(at+".group", k)
		c.checkCacheGroup(at+".cache_group", k.CacheGroup)
		c.checkTiers(at+".tiers", k)
		c.checkClass(at+".class", k.Class)
		c.check.checkRange(at+".weight", k.Weight, 1, MaxKeyWeight)
		c.check.checkNotNegative(at+".limits", numericMember{"requests_per_minute", k.Limits.RequestsPerMinute},
			numericMember{"tokens_per_minute", k.Limits.TokensPerMinute},
			numericMember{"tokens_per_day", k.Limits.TokensPerDay}, numericMember{"tokens_per_month", k.Limits.TokensPerMonth})
		checkBodyLimits(c.checks, at+".limits", k.Limits.Bodies())
		c.warnUnpricedSpendLimit(at, k)
		c.checkSharedLimits(at+".limits", k)
		c.check.checkRange(at+".limits.concurrency", k.Limits.Concurrency, 0, 1e6)
	}
}

func (c keyChecks) checkGroups() {
	ids := map[string]string{}
	for i := range c.file.Groups {
		g, at := &c.file.Groups[i], entryPath("groups", i)
		l := &g.Limits
		c.check.checkName(at+".id", "a group needs an id", "group id", g.ID, ids)
		c.check.checkNotNegative(at+".limits", numericMember{"requests_per_minute", l.RequestsPerMinute},
			numericMember{"tokens_per_minute", l.TokensPerMinute},
			numericMember{"tokens_per_day", l.TokensPerDay}, numericMember{"tokens_per_month", l.TokensPerMonth})
		c.check.checkRange(at+".limits.concurrency", l.Concurrency, 0, 1e6)
		in := func(k Key) bool { return k.Group == g.ID }
		switch {
		case *l == GroupLimits{}:
			c.check.warn(at, "the group has no limits, so it does nothing: give it limits")
		case !slices.ContainsFunc(c.file.Keys, in) && !c.file.CanCreateKeys() && !c.positions.IsOrContainsBroken("keys"):
			c.check.warn(at, "no key is in the group, so it does nothing: write group: %s beside the keys that are meant",
				c.positions.QuoteValue(at+".id", g.ID))
		}
	}
}

// groupIndex returns the index of a key's group, or -1.
func (c keyChecks) groupIndex(k *Key) int {
	return slices.IndexFunc(c.file.Groups, func(g Group) bool { return k.Group != "" && g.ID == k.Group })
}

// checkGroup checks a key's group. Usage with issuers' tokens is stored per caller, so a group's
// budget would not include that usage after a restart.
func (c keyChecks) checkGroup(at string, k *Key) {
	its := c.groupIndex(k)
	switch {
	case its >= 0:
		g := c.file.Groups[its].AsKey()
		if g.Limits.HasBudget() && isIssuerTemplateKey(c.file.Issuers, k.ID) {
			c.check.fail(at, "what callers with an issuer's tokens use in a day or a month is counted for each alone: "+
				"take this key out of the group, or the budgets out of the group's limits")
		}
	case k.Group != "" && !c.positions.HasUnknownNames("groups", "id"):
		c.check.fail(at, "no group is called %s%s", c.positions.QuoteValue(at, k.Group),
			cmp.Or(c.check.didYouMean(k.Group, c.groupIDs), ": add it to groups, with the limits of its keys"))
	}
}

func (c keyChecks) groupIDs() []string {
	ids := make([]string, len(c.file.Groups))
	for i := range c.file.Groups {
		ids[i] = c.file.Groups[i].ID
	}
	return ids
}

// checkCacheGroup checks a key's cache group, and warns if no model keeps a separate prompt cache
// for each key.
func (c keyChecks) checkCacheGroup(at, name string) {
	c.check.checkVisibleName(at, name)
	perKey := func(m Model) bool { return m.PromptCache == PromptCachePerKey }
	if name != "" && c.file.Auth != AuthNone && !slices.ContainsFunc(c.file.Models, perKey) {
		c.check.warn(at, "it has no effect while all models share their cached prompts: "+
			"set prompt_cache: per_key for a model, or remove it")
	}
}

func (c keyChecks) checkClass(at, name string) {
	var names []string
	for _, class := range EffectiveClasses(c.file) {
		names = append(names, class.Name)
	}
	if name != "" && c.file.Auth != AuthNone && !slices.Contains(names, name) && !c.positions.IsBroken("classes") {
		c.check.fail(at, "%s is not a class%s", c.positions.QuoteValue(at, name), suggest.ChoiceHint(name, names))
	}
}

func (c keyChecks) checkTiers(path string, k *Key) {
	tiers := k.Tiers
	if tiers != nil && len(tiers) == 0 {
		c.check.fail(path, "the key could reach no engine: list tiers, or leave it out for all that are not external")
	}
	for i, tier := range tiers {
		at := entryPath(path, i)
		c.check.checkRange(at, tier, 0, MaxTier)
		if slices.Contains(tiers[:i], tier) {
			c.check.fail(at, "%d is listed twice", tier)
		}
	}
	if len(tiers) > 0 && !c.positions.IsOrContainsBroken("models") && !c.positions.IsBroken("discover") {
		c.warnTiersWithoutModels(path, k)
	}
}

// warnTiersWithoutModels warns if a key's tiers contain no deployment of any model that the key may
// use.
func (c keyChecks) warnTiersWithoutModels(path string, k *Key) {
	var its []int // tiers of the models that the key may use
	for i := range c.file.Models {
		m := &c.file.Models[i]
		if slices.ContainsFunc(k.Models, func(pattern string) bool { return matchesPattern(pattern, m.ID) }) {
			for _, d := range m.Deployments {
				its = append(its, d.Tier)
			}
		}
	}
	if len(c.file.Discover) > 0 {
		its = append(its, 0)
	}
	slices.Sort(its)
	its = slices.Compact(its)
	if len(its) > 0 && !slices.ContainsFunc(its, func(tier int) bool { return slices.Contains(k.Tiers, tier) }) {
		c.check.warn(path, "the deployments of the key's models are of the tiers %s, so all of its calls are refused",
			strings.Trim(strings.Join(strings.Fields(fmt.Sprint(its)), ", "), "[]"))
	}
}

// checkSharedLimits checks limits that all callers with issuers' tokens share. Usage is stored per
// caller, so after a restart, none of a shared budget would count as used.
func (c keyChecks) checkSharedLimits(at string, k *Key) {
	l := &k.Limits
	c.check.checkOneOf(at+".per", "keys.limits.per", "a choice", l.Per)
	switch {
	case l.Per != LimitPerKey:
	case l.HasBudget():
		c.check.fail(at+".per", "daily and monthly usage is counted for each caller: remove the budgets, or write per: caller")
	case !isIssuerTemplateKey(c.file.Issuers, k.ID) && !c.positions.IsBroken("issuers"):
		c.check.warn(at+".per", "no issuer's tokens have the rights of this key, so nothing shares its limits: remove it")
	case l.RequestsPerMinute == 0 && l.TokensPerMinute == 0 && l.Concurrency == 0:
		c.check.warn(at+".per", "there is no limit for the callers to share: add requests_per_minute, "+
			"tokens_per_minute or concurrency")
	}
}

// warnUnpricedSpendLimit warns if a spend limit of a key or its group covers a model without a
// price, because calls for that model would never count.
func (c keyChecks) warnUnpricedSpendLimit(at string, k *Key) {
	budgeted := func(l *KeyLimits) bool { return !l.SpendPerDay.Zero() || !l.SpendPerMonth.Zero() }
	of := &k.Limits
	if its := c.groupIndex(k); its >= 0 && !budgeted(of) {
		group := c.file.Groups[its].AsKey()
		at, of = at+".group", &group.Limits
	} else {
		at += ".limits"
	}
	if !budgeted(of) {
		return
	}
	for i := range c.file.Models {
		m := &c.file.Models[i]
		allows := slices.ContainsFunc(k.Models, func(pattern string) bool { return matchesPattern(pattern, m.ID) })
		if allows && money.ParsePrice(m.Pricing) == (money.Price{}) {
			c.check.warn(at, "the key may use %s, which costs nothing: its pricing has neither input nor output as decimal numbers",
				c.positions.QuoteValue(entryPath("models", i)+".id", m.ID))
			return
		}
	}
}

// warnNoValidKey warns if there are keys but none of them is valid now. It reports whether any key
// is valid.
func (c keyChecks) warnNoValidKey() (some bool) {
	now := time.Now()
	ended := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	why := "" // reason why the first key is not valid
	for i := range c.file.Keys {
		k, at := &c.file.Keys[i], entryPath("keys", i)
		switch {
		case !k.Enabled():
			at += ".active"
		case ended(k.Expires):
			at += ".expires"
		case len(k.Hash) > 0 && !k.Certificate.IsSet() &&
			!slices.ContainsFunc(k.Hash, func(h KeyHash) bool { return !ended(h.Expires) }):
			at += ".hash"
		default:
			return true
		}
		why = cmp.Or(why, at)
	}
	if why != "" && !c.positions.IsOrContainsBroken("keys") {
		c.check.warn(why,
			`every key has expired or is switched off, so every call is refused: "penstock key new" makes one`)
	}
	return false
}

// warnExpiringKeys warns about valid keys that expire within a week. If any key is valid, it also
// warns about expired keys.
func (c keyChecks) warnExpiringKeys(some bool) {
	now := time.Now()
	for i := range c.file.Keys {
		k := &c.file.Keys[i]
		end := k.ExpiresAt()
		switch when := end.UTC().Format(time.RFC3339); {
		case !k.Enabled() || end.IsZero():
		case !end.After(now) && !some: // warnNoValidKey has reported that no key is valid
		case !end.After(now):
			c.check.warn(entryPath("keys", i), "the key %s expired on %s, so its calls are refused: extend it, or remove it", k.ID, when)
		case end.Sub(now) < expiryWarningTime:
			c.check.warn(entryPath("keys", i), "the key %s ends on %s, %s: extend it, or give its holder another key", k.ID,
				when, daysText(end.Sub(now)))
		}
	}
}

// checkHashes checks the format of a key's hashes. It also checks that no other key has the same
// hash, because it would be ambiguous who the caller is. Messages never show a hash.
func (c keyChecks) checkHashes(path string, k *Key, seen map[string]string) {
	if len(k.Hash) == 0 && !k.Certificate.IsSet() && !isIssuerTemplateKey(c.file.Issuers, k.ID) {
		c.check.fail(path, `a key needs a hash: "penstock key new" makes a key and prints it; `+
			"an entry without one that gave an issuer's tokens their rights goes with that issuer")
	}
	for i, h := range k.Hash {
		at := path
		if c.positions.HasValue(entryPath(path, i)) {
			at = entryPath(path, i)
		}
		digits, ok := strings.CutPrefix(h.Hash, HashPrefix)
		switch first, twice := seen[h.Hash]; {
		case h.Hash == "":
			c.check.fail(at, "an entry needs a hash")
		case !ok && !strings.Contains(h.Hash, ":"):
			c.check.fail(at, `this is not a hash: write what "penstock key hash" prints for the key, never the key itself`)
		case !ok:
			c.check.fail(at, "this is not a hash: it must begin with %s", HashPrefix)
		case len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "":
			c.check.fail(at, "%s must be followed by 64 hexadecimal digits; here are %d characters", HashPrefix, len(digits))
		case twice:
			c.check.fail(at, "two keys have the same hash: first %s", c.positions.DescribeLine(first, at))
		default:
			seen[h.Hash] = at
		}
	}
}

// checkCertificate checks how a key identifies a client certificate.
func (c keyChecks) checkCertificate(at string, k *CertificateIdentity, seen map[CertificateIdentity]string) {
	if !k.IsSet() {
		return
	}
	digits, sha256 := strings.CutPrefix(k.SPKI, HashPrefix)
	switch first, twice := seen[*k]; {
	case k.SAN != "" && k.SPKI != "":
		c.check.fail(at, "a certificate is named by its san or by its spki, not by both")
	case k.SPKI != "" && (!sha256 || len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != ""):
		c.check.fail(at+".spki", `the hash of a public key is %s and 64 hexadecimal digits, `+
			`as "openssl x509 -noout -pubkey -in FILE | openssl pkey -pubin -outform der | sha256sum" prints them`, HashPrefix)
	case k.SAN != "" && checkSAN(k.SAN) != nil:
		c.check.fail(at+".san", "%s", checkSAN(k.SAN))
	case twice:
		c.check.fail(at, "two keys name the same certificate: first %s", c.positions.DescribeLine(first, at))
	default:
		seen[*k] = at
	}
	if c.file.TLS.ClientCA == "" && !c.positions.IsOrContainsBroken("tls") {
		c.check.fail(at, "clients are not asked for a certificate: set tls.client_ca to the authority that signs theirs")
	}
}

func (c keyChecks) checkScopes(path string, k *Key) {
	if len(k.Models) == 0 {
		c.check.fail(path+".models",
			`the key has access to no model: list some, or leave models out for all; "active: false" switches a key off`)
	}
	if len(k.Operations) == 0 {
		c.check.fail(path+".operations",
			`the key has access to no operation: list some, or leave operations out for all; "active: false" switches a key off`)
	}
	c.check.checkEachOneOf(path+".operations", "keys.operations", "an operation", k.Operations)
	unsure := c.positions.HasUnknownNames("models", "id", "aliases")
	for i, pattern := range k.Models {
		at := entryPath(path+".models", i)
		switch {
		case pattern == "":
			c.check.fail(at, "an empty name matches no model")
		case strings.Contains(strings.TrimSuffix(pattern, "*"), "*"):
			c.check.fail(at, "%s: a * is allowed at the end only", c.positions.QuoteValue(at, pattern))
		case pattern == "*" || unsure || c.mayMatchModel(pattern):
		default:
			if n := c.aliasIndex(pattern); n >= 0 {
				id := entryPath("models", n) + ".id"
				c.check.warn(at, "%s is an alias, and keys name models by their ids, so it grants nothing: write %s",
					c.positions.QuoteValue(at, pattern), c.positions.QuoteValue(id, c.file.Models[n].ID))
				continue
			}
			c.check.warn(at, "no model matches %s%s", c.positions.QuoteValue(at, pattern), c.check.didYouMean(pattern, c.modelIDs))
		}
	}
}

// mayMatchModel reports whether a pattern matches a model id, or may match the id of a discovered
// model.
func (c keyChecks) mayMatchModel(pattern string) bool {
	return slices.ContainsFunc(c.file.Models, func(m Model) bool { return matchesPattern(pattern, m.ID) }) ||
		slices.ContainsFunc(c.file.Discover, func(d ModelDiscovery) bool { return d.mayPublish(pattern) })
}

// aliasIndex returns the index of a model that has a matching alias, or -1.
func (c keyChecks) aliasIndex(pattern string) int {
	named := func(alias string) bool { return matchesPattern(pattern, alias) || matchesPattern(alias, pattern) }
	return slices.IndexFunc(c.file.Models, func(m Model) bool { return slices.ContainsFunc(m.Aliases, named) })
}

func (c keyChecks) modelIDs() []string {
	ids := make([]string, len(c.file.Models))
	for i := range c.file.Models {
		ids[i] = c.file.Models[i].ID
	}
	return ids
}

func (d *ModelDiscovery) mayPublish(pattern string) bool {
	mine, open := strings.CutSuffix(d.Prefix+d.Match, "*")
	return open && strings.HasPrefix(strings.TrimSuffix(pattern, "*"), mine) || matchesPattern(pattern, mine)
}
