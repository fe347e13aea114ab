package config

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Sink is the destination of a hook's copies (Hook.After). Only one field is set.
type Sink struct{ URL, File, Socket string }

const socketScheme = "unix:"

// Sink returns the destination of the hook's copies, or the zero value for a hook with before.
func (h *Hook) Sink() Sink {
	switch path, socket := strings.CutPrefix(h.After, socketScheme); {
	case socket:
		return Sink{Socket: path}
	case strings.Contains(h.After, "://"):
		return Sink{URL: h.After}
	}
	return Sink{File: h.After}
}

// String describes the sink. It omits the path of a URL, which may be secret.
func (s Sink) String() string {
	switch u, err := url.Parse(s.URL); {
	case s.Socket != "":
		return "the socket " + s.Socket
	case s.URL == "":
		return "the file " + s.File
	case err != nil:
		return "a URL"
	default:
		return u.Scheme + "://" + u.Host
	}
}

// DescribeCopies describes which calls the hook copies, and where it sends the copies. It returns
// "" for a hook with before.
func (h *Hook) DescribeCopies() string {
	if h.After == "" {
		return ""
	}
	what := "requests and answers"
	if h.describeScope() == "" {
		what = "all requests and answers"
	}
	return what + h.describeScope() + ", to " + h.Sink().String()
}

// IsCopied reports whether a hook copies a key's calls for a model. If key is "" (the client has no
// key), it reports whether a hook copies calls for the model at all. For a call made with an
// issuer's token, template is the id of the entry in keys that defines the token's rights. For all
// other calls, template is "".
func (f *File) IsCopied(model, key, template string) bool {
	return slices.ContainsFunc(f.Hooks, func(h Hook) bool {
		return h.After != "" && h.MatchesModel(model) && (key == "" || h.MatchesKey(key) || template != "" && h.MatchesKey(template))
	})
}

// Maximum values of Hook.Bytes and Hook.Memory. A copy contains a request and a response.
const (
	maxCopyBytes  = 64 << 20
	maxCopyMemory = 16 << 30
)

type copyChecks struct{ hookChecks }

// copyOnlySettings apply only to hooks with after. decisionOnlySettings apply only to hooks with
// before.
var (
	copyOnlySettings     = []string{"bytes", "memory"}
	decisionOnlySettings = []string{"on_error", "send"}
)

// rejectCopySettings reports settings for copies in a hook with before.
func (c copyChecks) rejectCopySettings(at string) {
	for _, name := range copyOnlySettings {
		if path := at + "." + name; c.positions.HasValue(path) {
			c.check.fail(path, "it is for copies of calls (after): remove it")
		}
	}
}

func (c copyChecks) checkAll(at string, i int) {
	h := &c.file.Hooks[i]
	if h.Before != "" {
		c.check.fail(at+".after", "a hook has either before or after: write two hooks")
		return
	}
	for _, name := range decisionOnlySettings {
		if path := at + "." + name; c.positions.HasValue(path) {
			c.check.fail(path, "it is for hooks that decide (before): remove it")
		}
	}
	c.requireCopySelection(at+".models", "models", len(h.Models), "")
	if c.file.Auth == AuthNone {
		if c.requireCopySelection(at+".keys", "keys", len(h.Keys), `auth: none has no keys: write ["*"]`) && !matchesAny(h.Keys, "") {
			c.check.fail(at+".keys", `auth: none has no keys: write ["*"], which copies the calls of everyone`)
		}
	} else {
		c.requireCopySelection(at+".keys", "keys", len(h.Keys), "")
	}
	switch {
	case h.Bytes < 1 || h.Bytes > maxCopyBytes:
		c.check.fail(at+".bytes", "%s is out of range: 1B to %s", h.Bytes, Bytes(maxCopyBytes))
	case h.Memory < 2*h.Bytes || h.Memory > maxCopyMemory:
		c.check.fail(at+".memory", "%s is out of range: from %s, twice the bytes, to %s", h.Memory, 2*h.Bytes, Bytes(maxCopyMemory))
	}
	c.checkSink(at, i)
}

// requireCopySelection checks that a hook specifies which calls to copy. By default, no call is copied.
func (c copyChecks) requireCopySelection(path, name string, n int, more string) bool {
	// a null list also has a position, but its value is the default, which selects all calls
	if n > 0 && c.positions.HasValue(entryPath(path, 0)) {
		return true
	}
	if more == "" {
		more = `list them, or write ["*"] for all`
	}
	c.check.fail(path, "a hook copies no call unless its %s are named: %s", name, more)
	return false
}

func (c copyChecks) checkSink(at string, i int) {
	h, path := &c.file.Hooks[i], at+".after"
	to := h.Sink()
	if to.URL == "" && h.Token != "" {
		c.check.fail(at+".token", "a token is for a URL")
	}
	switch {
	case to.URL != "":
		c.checkSinkURL(at, to.URL)
	case h.After == "":
		c.check.fail(path, "copies need a place: a URL, a file, or unix:PATH")
	case to.Socket == "" && to.File == "":
		c.check.fail(path, "the path of the socket is missing: write unix:PATH")
	case to.File != "":
		c.checkSinkFile(path, to.File)
	}
}

func (c copyChecks) checkSinkURL(at, text string) {
	path := at + ".after"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		c.check.fail(path, "it must be a URL that begins with http:// or https:// and a host, the path of a file, or unix:PATH")
	case u.User != nil:
		c.check.fail(path, "a URL must not hold a user or a password: write the credential as token, beside after")
	case u.Fragment != "":
		c.check.fail(path, "a fragment (#) is never sent: remove it")
	case u.Scheme == "http" && !isLoopbackHost(u.Hostname()):
		c.check.warn(path, "requests and answers are sent over http, where anyone on the network path can read them: write https")
	}
}

func (c copyChecks) checkSinkFile(path, name string) {
	exported := func(s LedgerSink) bool { return s.File == name }
	switch info, err := os.Stat(filepath.Dir(name)); {
	case slices.ContainsFunc(c.file.origin.files, func(own string) bool { return sameFile(own, name) }):
		c.check.fail(path, "copies would be appended to this file of the configuration: name another file")
	case name == c.file.Ledger.Path || slices.ContainsFunc(c.file.Ledger.Export, exported):
		c.check.fail(path, "the ledger writes to this file: name another file")
	case err != nil || !info.IsDir():
		c.check.warn(path, "its folder does not exist: copies are lost until it does")
	}
}
