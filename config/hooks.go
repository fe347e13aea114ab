package config

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"penstock/config/unixsocket"
)

// Hook is an external service that decides about calls before they go to an engine (before), or a
// sink that receives copies of calls (after). A deciding hook can allow a call, refuse it, replace
// its body or send it to another model. Deciding hooks run in file order, and each one sees the
// changes made by earlier ones.
type Hook struct {
	// The hook has this name in metrics and the log.
	Name string `yaml:"name"`
	// The edge sends a POST to this URL before a call waits for an engine, and the hook decides
	// about the call. The value is an http or https URL. For a service on a Unix socket, use
	// unix:/PATH, or unix:/PATH:/BASE, where /BASE is the request path.
	Before string `yaml:"before"`
	// Use this instead of before. Once a call has ended, the edge sends a copy of it here. The
	// value is an http or https URL, a file path, or unix:PATH for a stream socket. Each copy is a
	// line of JSON with the request and the answer. The hook must also set models and keys, because
	// by default no call is copied.
	After string `yaml:"after"`
	// The edge sends this bearer token to the hook.
	Token Secret `yaml:"token"`
	// The hook must answer within this time. If after is set, the sink must accept copies within
	// this time. The time that a decision takes counts towards timeouts.total.
	Timeout Duration `yaml:"timeout"`
	// This setting decides what happens to a call if the hook gives no valid answer in time.
	// closed: the edge refuses the call with 503. open: the call continues.
	OnError string `yaml:"on_error"`
	// This setting decides what the edge sends to the hook. meta: the call's model, key, endpoint
	// and size. body: also the JSON of the request, which includes the prompt. The edge never sends
	// audio or images that are uploaded as a form.
	Send string `yaml:"send"`
	// The hook decides about calls for these models. A trailing * matches any suffix.
	Models []string `yaml:"models"`
	// The hook decides about calls of the keys with these ids. A trailing * matches any suffix. If
	// issuers' tokens get the rights of an entry in `keys`, that entry's id applies to all callers
	// with such tokens.
	Keys []string `yaml:"keys"`
	// If after is set, the edge copies at most this many bytes of a request, and the same of an
	// answer. It marks truncated requests and answers.
	Bytes Bytes `yaml:"bytes"`
	// If after is set, copies that the sink has not accepted yet use at most this much memory.
	// While this memory is used up, the edge copies no calls.
	Memory Bytes `yaml:"memory"`
}

// Values of Hook.OnError.
const (
	HookFailClosed = "closed"
	HookFailOpen   = "open"
)

// Values of Hook.Send.
const (
	HookSendMeta = "meta"
	HookSendBody = "body"
)

// MaxHooks is the maximum number of hooks. It is small because the hooks of a call run one after
// another.
const MaxHooks = 16

const maxHookTimeout = 60 * time.Second

// SetDefaults sets the defaults of an entry in hooks before it is read. By default, a hook decides
// about all calls, does not see their prompts, and refuses calls if it fails. If after is set,
// models and keys must be set explicitly (copyChecks).
func (h *Hook) SetDefaults() {
	*h = Hook{
		Timeout: secondsDuration(2), OnError: HookFailClosed, Send: HookSendMeta, Models: []string{"*"}, Keys: []string{"*"},
		Bytes: 1 << 20, Memory: 64 << 20,
	}
}

// MatchesModel reports whether the hook applies to calls for a model.
func (h *Hook) MatchesModel(id string) bool { return matchesAny(h.Models, id) }

// MatchesKey reports whether the hook applies to calls of a key. An empty id stands for a call
// without a key, which is possible if the edge requires no keys.
func (h *Hook) MatchesKey(id string) bool { return matchesAny(h.Keys, id) }

// AppliesTo reports whether the hook applies to a key's calls for a model. For a call made with an
// issuer's token, template is the id of the entry in keys that defines the token's rights. For all
// other calls, template is empty.
func (h *Hook) AppliesTo(model, key, template string) bool {
	return h.MatchesModel(model) && (h.MatchesKey(key) || template != "" && h.MatchesKey(template))
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matchesPattern(pattern, name) })
}

// DescribePrompts describes which prompts the hook receives: "all prompts", or those of some keys
// and models. It returns "" if the hook receives no prompts.
func (h *Hook) DescribePrompts() string {
	if h.Send != HookSendBody {
		return ""
	}
	if whose := h.describeScope(); whose != "" {
		return "the prompts" + whose
	}
	return "all prompts"
}

// describeScope describes the calls to which the hook applies. It returns "" if the hook applies to
// all calls.
func (h *Hook) describeScope() (of string) {
	if !slices.Contains(h.Keys, "*") {
		of += " of the keys " + strings.Join(h.Keys, ", ")
	}
	if !slices.Contains(h.Models, "*") {
		of += " for the models " + strings.Join(h.Models, ", ")
	}
	return of
}

type hookChecks struct{ keyChecks }

func (c hookChecks) checkAll() {
	list, names := c.file.Hooks, map[string]string{}
	if len(list) > MaxHooks {
		c.check.fail("hooks", "there are %d hooks, and their times add up: at most %d", len(list), MaxHooks)
	}
	if len(list) > 0 && c.file.Strict {
		c.check.fail("hooks", "strict: true serves what the contract has, and it has no hooks: remove one of the two")
	}
	for i := range list {
		h, at := &list[i], entryPath("hooks", i)
		c.check.checkName(at+".name", "a hook needs a name, which appears in metrics and the log", "hook", h.Name, names)
		if copies := (copyChecks{c}); h.After != "" || h.Before == "" && c.positions.HasValue(at+".after") {
			copies.checkAll(at, i)
		} else {
			c.checkURL(at, h)
			copies.rejectCopySettings(at)
		}
		if h.Timeout <= 0 || h.Timeout.D() > maxHookTimeout {
			c.check.fail(at+".timeout", "%s is out of range: more than 0s, and at most %s", h.Timeout, Duration(maxHookTimeout))
		}
		c.check.checkOneOf(at+".on_error", "hooks.on_error", "a choice", h.OnError)
		c.check.checkOneOf(at+".send", "hooks.send", "a choice", h.Send)
		c.checkModels(at+".models", h)
		c.checkKeys(at+".keys", h)
	}
}

func (c hookChecks) checkURL(at string, h *Hook) {
	path := at + ".before"
	if unixsocket.IsAddress(h.Before) {
		_, base, err := unixsocket.ParseURL(h.Before)
		if err == nil {
			_, err = url.ParseRequestURI(cmp.Or(base, "/"))
		}
		switch {
		case err != nil:
			c.check.fail(path, "%v", err)
		case strings.Contains(base, "#"):
			c.check.fail(path, "a fragment (#) is never sent: remove it")
		}
		return
	}
	u, err := url.Parse(h.Before)
	switch {
	case h.Before == "":
		c.check.fail(path, "a hook needs the URL that is asked, such as http://127.0.0.1:8090/decide, or after, the place where copies go")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		c.check.fail(path, "it must begin with http:// or https:// and a host, such as http://127.0.0.1:8090/decide, or be unix:/PATH")
	case u.User != nil:
		c.check.fail(path, "a URL must not hold a user or a password: write the credential as token, beside before")
	case u.Fragment != "":
		c.check.fail(path, "a fragment (#) is never sent: remove it")
	case u.Scheme == "http" && !isLoopbackHost(u.Hostname()) && h.Token != "":
		c.check.warn(at+".token", "it is sent over http, where anyone on the network path can read it: write https")
	case u.Scheme == "http" && !isLoopbackHost(u.Hostname()) && h.Send == HookSendBody:
		c.check.warn(path, "prompts are sent over http, where anyone on the network path can read them: write https")
	}
}

// checkModels checks the models of a hook. It reports a name that does not match any model, because
// the calls for which it was meant would skip the hook.
func (c hookChecks) checkModels(path string, h *Hook) {
	if len(h.Models) == 0 && h.After == "" {
		c.check.fail(path, "the hook decides about no call: list models, or leave models out for all")
	}
	unsure := c.positions.HasUnknownNames("models", "id", "aliases")
	for i, pattern := range h.Models {
		at := entryPath(path, i)
		if !c.checkNamePattern(at, pattern) || unsure || c.mayMatchModel(pattern) {
			continue
		}
		if n := c.aliasIndex(pattern); n >= 0 {
			c.check.fail(at, "%s is an alias, and hooks name models by their ids: write %s", c.positions.QuoteValue(at, pattern),
				c.positions.QuoteValue(entryPath("models", n)+".id", c.file.Models[n].ID))
			continue
		}
		c.check.fail(at, "no model matches %s%s", c.positions.QuoteValue(at, pattern), c.check.didYouMean(pattern, c.modelIDs))
	}
}

// checkKeys checks the keys of a hook. A name may match no key in the file, because keys can be
// made at run time, and callers may use issuers' tokens.
func (c hookChecks) checkKeys(path string, h *Hook) {
	switch {
	case len(h.Keys) == 0 && h.After == "":
		c.check.fail(path, "the hook decides about no call: list keys, or leave keys out for all")
	case c.file.Auth == AuthNone && !matchesAny(h.Keys, "") && h.After != "":
		return // copyChecks reports this
	case c.file.Auth == AuthNone && !matchesAny(h.Keys, ""):
		c.check.fail(path, "auth: none has no keys: leave keys out, so that the hook decides about all calls")
		return
	}
	unsure := c.positions.HasUnknownNames("keys", "id")
	for i, pattern := range h.Keys {
		at := entryPath(path, i)
		if !c.checkNamePattern(at, pattern) || unsure || c.mayMatchKey(pattern) {
			continue
		}
		if c.file.CanCreateKeys() {
			c.check.warn(at, "no key of the file matches %s, so the hook decides about no call until one is made (penstock key create)%s",
				c.positions.QuoteValue(at, pattern), c.check.didYouMean(pattern, c.allKeyIDs))
			continue
		}
		c.check.fail(at, "no key matches %s%s", c.positions.QuoteValue(at, pattern), c.check.didYouMean(pattern, c.allKeyIDs))
	}
}

// checkNamePattern checks the format of a name in models or keys. It returns false if the pattern
// contains no name to look up.
func (c hookChecks) checkNamePattern(at, pattern string) bool {
	switch {
	case pattern == "":
		c.check.fail(at, "an empty name matches nothing")
	case strings.Contains(strings.TrimSuffix(pattern, "*"), "*"):
		c.check.fail(at, "%s: a * is allowed at the end only", c.positions.QuoteValue(at, pattern))
	default:
		return pattern != "*"
	}
	return false
}

// mayMatchKey reports whether a pattern matches the id of a key, or may match the id of a caller
// with an issuer's token.
func (c hookChecks) mayMatchKey(pattern string) bool {
	prefix := strings.TrimSuffix(pattern, "*")
	return slices.ContainsFunc(c.file.Keys, func(k Key) bool { return matchesPattern(pattern, k.ID) }) ||
		slices.ContainsFunc(c.file.Issuers, func(is Issuer) bool {
			callers := is.Name + "/"
			return strings.HasPrefix(prefix, callers) || pattern != prefix && strings.HasPrefix(callers, prefix)
		})
}

func (c hookChecks) allKeyIDs() (ids []string) { return issuerChecks{c.checks}.allKeyIDs() }
