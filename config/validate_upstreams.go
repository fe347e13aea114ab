package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"penstock/config/suggest"
	"penstock/config/unixsocket"
)

// engineChecks checks the profiles in the file with Engine.Problems. It also checks that each
// `like` names an existing profile.
type engineChecks struct {
	checks
	bundled KnownProfiles
}

func (c engineChecks) checkAll() {
	seen := map[string]string{}
	for i := range c.file.Engines {
		e, at := &c.file.Engines[i], entryPath("engines", i)
		for _, p := range e.Problems() {
			member, message, _ := strings.Cut(p, ": ")
			c.check.fail(at+"."+member, "%s", message)
		}
		if e.Name != "" {
			c.check.checkName(at+".name", "", "profile name", e.Name, seen)
		}
		names := c.profileNames()
		switch {
		case e.Like == "" || !c.areNamesKnown():
		case !slices.Contains(names, e.Like):
			c.check.fail(at+".like", "there is no engine %s%s", c.positions.QuoteValue(at+".like", e.Like),
				c.check.didYouMean(e.Like, c.profileNames))
		case c.isCyclic(e):
			c.check.fail(at+".like", "the profile would derive from itself")
		}
	}
}

// isCyclic reports whether the chain of `like` members that starts at e leads back to e. Profiles
// in the file replace bundled profiles of the same name.
func (c engineChecks) isCyclic(e *Engine) bool {
	own := map[string]*Engine{}
	for i := range c.file.Engines {
		own[c.file.Engines[i].Name] = &c.file.Engines[i]
	}
	at := own[e.Like]
	for range c.file.Engines {
		if at == nil || at.Name == e.Name {
			break
		}
		at = own[at.Like]
	}
	return at != nil
}

// findInherited follows the chain of `like` members from the named profile. It returns the first
// profile in the file for which sets returns true. If there is none, it returns the bundled profile
// at the end of the chain.
func (c engineChecks) findInherited(name string, sets func(*Engine) bool) (own *Engine, bundled string) {
	for range len(c.file.Engines) + 1 { // the limit ends the loop if the chain is cyclic
		i := slices.IndexFunc(c.file.Engines, func(e Engine) bool { return e.Name == name })
		if i < 0 {
			break
		}
		if own = &c.file.Engines[i]; sets(own) {
			return own, ""
		}
		name = cmp.Or(own.Like, "openai")
	}
	return nil, name
}

// neverLoadsModels reports whether an upstream's engine is known not to load models on demand.
func (c engineChecks) neverLoadsModels(u *Upstream) bool {
	own, bundled := c.findInherited(u.Engine, func(e *Engine) bool { return slices.Contains(e.Quirks, QuirkLoadsOnDemand) })
	return own == nil && slices.Contains(c.bundled.Fixed, bundled)
}

// readsSalt reports whether an upstream's engine reads a salt for cached prompts. It also returns
// true if the engine has yet to be detected.
func (c engineChecks) readsSalt(u *Upstream) bool {
	own, bundled := c.findInherited(u.Engine, func(e *Engine) bool { return e.CacheSalt != "" })
	return own != nil || bundled == EngineAuto || slices.Contains(c.bundled.Salting, bundled)
}

// areNamesKnown reports whether the names of all profiles, bundled and in the file, are known.
func (c engineChecks) areNamesKnown() bool {
	return c.bundled.Engines != nil && !c.positions.HasUnknownNames("engines", "name")
}

// profileNames returns the names of the bundled profiles and of those in the file.
func (c engineChecks) profileNames() []string {
	names := slices.Clone(c.bundled.Engines)
	for i := range c.file.Engines {
		names = append(names, c.file.Engines[i].Name)
	}
	return names
}

// upstreamChecks checks the upstreams, and whether models use them.
type upstreamChecks struct {
	checks
	byName  map[string]int
	engines engineChecks
}

// upstreamsByName maps each name to the index of the first upstream with that name.
func (f *File) upstreamsByName() map[string]int {
	byName := make(map[string]int, len(f.Upstreams))
	for i := len(f.Upstreams) - 1; i >= 0; i-- {
		byName[f.Upstreams[i].Name] = i
	}
	return byName
}

// modelsByID maps each id to the index of the first model with that id.
func modelsByID(f *File) map[string]int {
	byID := make(map[string]int, len(f.Models))
	for i := len(f.Models) - 1; i >= 0; i-- {
		byID[f.Models[i].ID] = i
	}
	return byID
}

func (c upstreamChecks) checkAll() {
	names, urls := map[string]string{}, map[string]string{}
	used, sure := c.usedUpstreams()
	for i := range c.file.Upstreams {
		u, at := &c.file.Upstreams[i], entryPath("upstreams", i)
		c.check.checkName(at+".name", "an upstream needs a name", "upstream name", u.Name, names)
		c.checkTags(at+".tags", u.Tags)
		c.checkURL(at+".url", u, urls)
		c.checkEngine(at+".engine", u.Engine)
		c.checkPools(at+".concurrency", u.Concurrency)
		c.checkExactSlots(at+".concurrency", u.Concurrency)
		c.checkProbe(at+".probe", u.Probe)
		c.checkTLS(at+".tls", u)
		c.checkWake(at+".wake", u.Wake)
		c.checkKubernetes(at+".kubernetes", u)
		if u.Prefill != "" {
			c.check.checkOneOf(at+".prefill", "upstreams.prefill", "a choice", u.Prefill)
		}
		c.checkPriorities(at+".priorities", u)
		if u.Weight <= 0 || u.Weight > 1000 {
			c.check.fail(at+".weight",
				"%v is out of range: above 0, up to 1000; to give an upstream no calls take it out of the deployments", u.Weight)
		}
		c.check.checkRange(at+".residents", u.Residents, 0, 1e6)
		if u.Residents > 0 && c.engines.neverLoadsModels(u) {
			c.check.warn(at+".residents", "the engine %s serves only the models it was started with, so residents has no effect: remove it",
				c.positions.QuoteValue(at+".engine", u.Engine))
		}
		if r := u.Resolve; r != (Resolve{}) && r.Every < Duration(time.Second) {
			c.check.fail(at+".resolve", "%s is too often: at least 1s, or 0 to resolve once", r.Every)
		}
		if sure && u.Name != "" && !used[u.Name] {
			c.check.warn(at, "no model uses the upstream %s", c.positions.QuoteValue(at+".name", u.Name))
		}
		c.warnUnreachableExternal(at+".external", u)
		c.warnHostedAPI(at, u)
	}
}

// checkPriorities reports an upstream with priorities whose engine ignores them.
func (c upstreamChecks) checkPriorities(path string, u *Upstream) {
	if !u.Priorities || u.Engine == EngineAuto || !c.engines.areNamesKnown() {
		return
	}
	own, bundled := c.engines.findInherited(u.Engine, func(e *Engine) bool { return e.Priority != "" })
	if own == nil && !slices.Contains(c.engines.bundled.Ordering, bundled) {
		c.check.fail(path, "the engine %s does not order its queue by priority: leave it out, or give its profile priority: lower_first or higher_first",
			c.positions.QuoteValue(path, u.Engine))
	}
}

func (c upstreamChecks) checkURL(path string, u *Upstream, seen map[string]string) {
	if u.URL == "" {
		c.check.fail(path, "an upstream needs a url, such as http://10.0.0.11:8000")
		return
	}
	if err := CheckBaseURL(u.URL); err != nil {
		c.check.fail(path, "%s", err)
		return
	}
	if unixsocket.IsAddress(u.URL) && (u.Resolve != (Resolve{}) || u.Kubernetes.IsSet()) {
		c.check.fail(path, "a Unix socket is a single engine on this machine: remove resolve and kubernetes, or write http://HOST:PORT")
	}
	for _, own := range []struct{ setting, listen string }{
		{"listen", c.file.Listen},
		{"admin.listen", c.file.Admin.Listen},
	} {
		if pointsToListener(u.URL, own.listen) {
			c.check.warn(path,
				"the edge itself listens at this address (%s), so calls reach no engine: write the engine's address", own.setting)
		}
	}
	if first, twice := seen[u.URL]; twice {
		c.check.warn(path, "another upstream has this url, so the engine is counted twice: first %s",
			c.positions.DescribeLine(first, path))
		return
	}
	seen[u.URL] = path
}

// warnHostedAPI warns about a hosted API that is not marked as external. Without this mark, clients
// could store conversations there and request more expensive service tiers. Prompts would also
// leave the premises without a key's consent. For an in-house engine with a public name, set
// external: false.
func (c upstreamChecks) warnHostedAPI(path string, u *Upstream) {
	if u.External || u.Kubernetes.IsSet() || c.positions.HasValue(path+".external") || c.baseProfile(u.Engine) != openAIProfile ||
		!isPublicHost(u.URL) {
		return
	}
	c.check.warn(path+".url", "this looks like a hosted API but is treated as your own engine: any key's prompts may "+
		"go there, and clients may choose storage and dearer tiers; write external: true, or external: false if it is yours")
}

// openAIProfile is the profile for hosted APIs, and for engines that have no profile.
const openAIProfile = "openai"

// baseProfile returns the name of the bundled profile that a profile is based on.
func (c upstreamChecks) baseProfile(name string) string {
	for range len(c.file.Engines) {
		i := slices.IndexFunc(c.file.Engines, func(e Engine) bool { return e.Name == name })
		if i < 0 {
			break
		}
		name = c.file.Engines[i].Like
	}
	return name
}

// warnUnreachableExternal warns about an upstream that no key may use. It does nothing if keys can
// be made at run time.
func (c upstreamChecks) warnUnreachableExternal(path string, u *Upstream) {
	if !u.External || c.file.CanCreateKeys() || c.positions.IsBroken("keys") || c.positions.IsBroken("keys_file") {
		return
	}
	var all []Deployment
	for i := range c.file.Models {
		all = append(all, c.file.Models[i].Deployments...)
	}
	for i := range c.file.Discover {
		all = append(all, Deployment{Upstream: c.file.Discover[i].Upstream})
	}
	for _, d := range all {
		lists := func(k Key) bool { return slices.Contains(k.Tiers, d.Tier) }
		if d.Upstream == u.Name && c.file.Auth != AuthNone && slices.ContainsFunc(c.file.Keys, lists) {
			return
		}
	}
	c.check.warn(path, "no call may go there: prompts leave the house only by consent, so list its tier in a key's tiers, such as tiers: [0, 1]")
}

func (c upstreamChecks) checkWake(path string, w Wake) {
	if w.URL == "" {
		if w.After != 0 || c.positions.HasValue(path) {
			c.check.fail(path, "a wake needs a url, such as http://10.0.0.11:8000/wake_up")
		}
		return
	}
	address, query, _ := strings.Cut(w.URL, "?")
	var err error
	if unixsocket.IsAddress(address) {
		_, _, err = unixsocket.ParseURL(address)
	} else {
		_, err = parseHTTPURL(address)
	}
	if err != nil {
		c.check.fail(path+".url", "%s", err)
	} else if strings.ContainsFunc(query, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }) {
		c.check.fail(path+".url", "the query holds blanks, a # or other characters that must be escaped")
	}
	c.check.checkOneOf(path+".method", "upstreams.wake.method", "a method", w.Method)
}

func (c upstreamChecks) checkEngine(path, name string) {
	if name == EngineAuto || !c.engines.areNamesKnown() {
		return
	}
	if names := c.engines.profileNames(); !slices.Contains(names, name) {
		c.check.fail(path, "there is no engine %s%s", c.positions.QuoteValue(path, name), suggest.ChoiceHint(name, engineChoices(names)))
	}
}

// engineChoices returns the values of `engine`: auto, followed by all named profiles.
func engineChoices(profiles []string) []string {
	named := slices.DeleteFunc(slices.Clone(profiles), func(name string) bool { return name == "" || name == EngineAuto })
	return append([]string{EngineAuto}, named...)
}

// checkPools checks the numbers of a Concurrency. BindNode has checked that at least one is
// positive.
func (c upstreamChecks) checkPools(path string, p Concurrency) {
	const most = 1e6
	if p.Shared != 0 {
		c.check.checkRange(path, p.Shared, 1, most)
	}
	c.check.checkRange(path+".text", p.Text, 0, most)
	c.check.checkRange(path+".vision", p.Vision, 0, most)
	c.check.checkRange(path+".audio", p.Audio, 0, most)
}

// checkExactSlots checks the settings of slots that the fleet must never exceed in total.
func (c upstreamChecks) checkExactSlots(path string, p Concurrency) {
	switch {
	case p.Fleet == "":
	case p.Fleet != FleetExact:
		c.check.checkOneOf(path+".fleet", "upstreams.concurrency.fleet", "a choice", p.Fleet)
	case p.Shared == 0:
		c.check.fail(path+".fleet", "exact slots are one number: give shared, in place of text, vision and audio")
	case !c.file.Fleet.HasStore():
		c.check.fail(path+".fleet", "only a store can count the slots of all edges: set fleet.store.url")
	}
}

// minProgressProbeInterval is the shortest probe interval in which an engine has enough time to
// show progress.
const minProgressProbeInterval = 500 * time.Millisecond

func (c upstreamChecks) checkProbe(path string, p Probe) {
	if p.Path != "" && (!strings.HasPrefix(p.Path, "/") || strings.ContainsFunc(p.Path,
		func(r rune) bool { return r <= ' ' || r > '~' })) {
		c.check.fail(path+".path", "%s must begin with / and hold no blanks", c.positions.QuoteValue(path+".path", p.Path))
	}
	if p.Interval < Duration(100*time.Millisecond) {
		c.check.fail(path+".interval", "%s is too often: at least 100ms", p.Interval)
	} else if p.Interval < Duration(minProgressProbeInterval) {
		c.check.warn(path+".interval", "%s is so often that probes can fail between two reads of an answer, and a working engine counts as down: write 500ms or more", p.Interval)
	}
	c.check.checkRange(path+".fall", p.Fall, 1, 1000)
	c.check.checkRange(path+".rise", p.Rise, 1, 1000)
}

func (c upstreamChecks) checkTLS(path string, u *Upstream) {
	c.checkClientTLS(path, u.TLS, u.URL, "http", "https")
	if u.TLS.Insecure && strings.HasPrefix(u.URL, "https://") {
		c.check.warn(path+".insecure",
			"the engine's certificate is not verified: anyone on the network path can read prompts and the engine's key")
	}
}

// checkClientTLS checks the TLS settings for the server at url. plain and secure are the URL
// schemes without and with TLS.
func (c checks) checkClientTLS(path string, t UpstreamTLS, url, plain, secure string) {
	if (t.Cert == "") != (t.Key == "") {
		c.check.fail(path, "cert and key go together: give both or none")
	}
	if t != (UpstreamTLS{}) && unixsocket.IsAddress(url) {
		c.check.fail(path, "requests over a Unix socket are not encrypted, so none of this is used: remove it")
	}
	if t != (UpstreamTLS{}) && strings.HasPrefix(url, plain+"://") {
		c.check.fail(path, "the url is %s, so none of this is used: write %s or remove it", plain, secure)
	}
	if t.Insecure && t.CA != "" {
		c.check.fail(path+".insecure", "insecure verifies nothing, so ca has no effect: remove one of the two")
	}
}

// usedUpstreams returns the upstreams of all deployments. sure is false if a deployment could not
// be read or names an unknown upstream, because an upstream that seems unused may be used by that
// deployment.
func (c upstreamChecks) usedUpstreams() (used map[string]bool, sure bool) {
	used, sure = map[string]bool{}, !c.positions.HasUnknownNames("models", "deployments")
	for i := range c.file.Models {
		for _, d := range c.file.Models[i].Deployments {
			used[d.Upstream] = true
			_, exists := c.byName[d.Upstream]
			sure = sure && exists
		}
	}
	for i := range c.file.Discover {
		used[c.file.Discover[i].Upstream] = true
	}
	return used, sure
}

// selectorPattern matches a Kubernetes label selector: requirements separated by commas.
var selectorPattern = func() *regexp.Regexp {
	const (
		value       = `([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)`
		label       = `([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?` + value
		oneOf       = `\s+(in|notin)\s*\(\s*` + value + `?(\s*,\s*` + value + `?)*\s*\)`
		requirement = `\s*(!\s*` + label + `|` + label + `(\s*(=|==|!=)\s*` + value + `?|\s*[<>]\s*[0-9]+|` + oneOf + `)?)\s*`
	)
	return regexp.MustCompile(`^` + requirement + `(,` + requirement + `)*$`)
}()

// checkKubernetes checks the format of the Kubernetes settings. It does not query the cluster.
func (c upstreamChecks) checkKubernetes(path string, u *Upstream) {
	k := &u.Kubernetes
	if !k.IsSet() && !c.positions.HasValue(path) {
		return
	}
	if (k.Selector == "") == (k.Pool == "") {
		c.check.fail(path, "pods are found by a selector, such as app=vllm, or by the name of a pool: set one of the two")
	}
	if u.Resolve != (Resolve{}) {
		c.check.fail(path, "the engines are found by resolve or in Kubernetes: remove one of the two")
	}
	if k.Selector != "" && (len(k.Selector) > 4096 || !selectorPattern.MatchString(k.Selector)) {
		c.check.fail(path+".selector", "%s is not a selector: write app=vllm", c.positions.QuoteValue(path+".selector", k.Selector))
	}
	for _, name := range []struct{ key, value string }{{"pool", k.Pool}, {"namespace", k.Namespace}} {
		if name.value != "" && !IsObjectName(name.value) {
			c.check.fail(path+"."+name.key, "%s is not a Kubernetes name: use lower-case letters, digits, dots and -",
				c.positions.QuoteValue(path+"."+name.key, name.value))
		}
	}
	if k.Pool != "" && len(k.Ports) > 0 {
		c.check.fail(path+".ports", "the pool gives the ports: remove this")
	}
	if len(k.Ports) > 8 {
		c.check.fail(path+".ports", "there are %d ports: a pod may have at most 8", len(k.Ports))
	}
	for i, port := range k.Ports {
		c.check.checkRange(entryPath(path+".ports", i), port, 1, 65535)
		if slices.Contains(k.Ports[:i], port) {
			c.check.fail(entryPath(path+".ports", i), "%d is listed twice", port)
		}
	}
	if k.Server == "" {
		return
	}
	if _, err := parseHTTPURL(k.Server); err != nil {
		c.check.fail(path+".server", "%s", err)
	} else if strings.HasPrefix(k.Server, "http://") && k.Account != "" {
		c.check.warn(path+".account", "the server is http, so no token is sent and this is not used")
	}
}

// IsObjectName reports whether s is a valid Kubernetes object name.
func IsObjectName(s string) bool {
	return s != "" && len(s) <= maxHostNameBytes && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" &&
		!strings.Contains(s, "..") && strings.Trim(s, "-.") == s
}

func (c upstreamChecks) checkTags(path string, tags []string) {
	for i, tag := range tags {
		at := entryPath(path, i)
		switch {
		case tag == "" || strings.ContainsAny(tag, "*:,"):
			c.check.fail(at, "%s: a tag is a word without *, : and commas, such as h100", c.positions.QuoteValue(at, tag))
		case slices.Index(tags, tag) < i:
			c.check.fail(at, "%s is listed twice", c.positions.QuoteValue(at, tag))
		default:
			c.check.checkVisibleName(at, tag)
		}
	}
}
