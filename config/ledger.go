package config

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"penstock/config/strictyaml"
)

// Ledger configures where usage is stored so that it survives restarts. It is written as a path or
// a mapping.
type Ledger struct {
	// The edge stores usage in this file. Only one edge may write to it.
	Path string `yaml:"path"`
	// The edge sends the rows of the ledger to these files and URLs, as JSON lines. Each row
	// contains one key's usage of one model on one day.
	Export []LedgerSink `yaml:"export"`
}

// LedgerSink is a file or URL that receives the ledger's rows.
type LedgerSink struct {
	// The edge appends rows to this file.
	File string `yaml:"file"`
	// The edge sends rows to this URL in POST requests.
	URL string `yaml:"url"`
	// The edge sends this bearer token to the URL.
	Token Secret `yaml:"token"`
}

// EndUsers configures how usage is counted by end user of the applications that use the keys. An
// end user is identified by a keyed hash of the name that the application sends. If no secret is
// set, the edge does not read that name.
type EndUsers struct {
	// This is the secret of the keyed hash. If the secret changes, every end user gets a different
	// hash.
	Secret Secret `yaml:"secret"`
	// This request header contains the name of the end user. It takes precedence over the body.
	Header string `yaml:"header"`
}

// BindNode accepts a path, or a mapping with the members of Ledger.
func (l *Ledger) BindNode(b *strictyaml.Binder, n strictyaml.Node) {
	if n.IsMapping() {
		b.BindFields(n, l)
	} else {
		b.BindScalar(n, &l.Path)
	}
	if _, err := strconv.ParseInt(l.Path, 10, 64); err == nil {
		b.Fail(n, l.Path+" is a number, and the ledger is a file: write its path, such as usage.ledger")
	}
}

// checkLedger checks where usage is stored and exported.
func (c processChecks) checkLedger() {
	l := &c.file.Ledger
	if l.Path == "" {
		if c.positions.HasValue("ledger") {
			c.check.fail("ledger", "the ledger needs a path, such as usage.ledger; without one leave it out")
		}
		return
	}
	for i := range l.Export {
		c.checkLedgerSink(entryPath("ledger.export", i), &l.Export[i])
		same := func(s LedgerSink) bool { return s.File == l.Export[i].File && s.URL == l.Export[i].URL }
		if slices.ContainsFunc(l.Export[:i], same) {
			c.check.fail(entryPath("ledger.export", i), "it gets the rows already: leave it out")
		}
	}
	if info, err := os.Stat(filepath.Dir(l.Path)); err != nil || !info.IsDir() {
		c.check.warn("ledger", "its folder does not exist: the ledger starts once it does")
	}
}

func (c processChecks) checkLedgerSink(path string, s *LedgerSink) {
	switch u, err := url.Parse(s.URL); {
	case (s.File == "") == (s.URL == ""):
		c.check.fail(path, "give either a file or a url")
	case s.URL == "" && s.Token != "":
		c.check.fail(path+".token", "a token is for a url")
	case s.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == ""):
		c.check.fail(path+".url", "it must begin with http:// or https:// and a host, such as https://billing.example/usage")
	}
	if u, err := url.Parse(s.URL); err == nil && u.User != nil {
		c.check.fail(path+".url", "a URL must not hold a user or a password: write the credential as token, beside the url")
	} else if err == nil && u.Scheme == "http" && s.Token != "" && !isLoopbackHost(u.Hostname()) {
		c.check.warn(path+".token", "it is sent over http, where anyone on the network path can read it: write https")
	}
	switch {
	case s.File == "":
	case s.File == c.file.Ledger.Path:
		c.check.fail(path+".file", "this is the ledger itself: give the export another file")
	case slices.ContainsFunc(c.file.origin.files, func(name string) bool { return sameFile(name, s.File) }):
		c.check.fail(path+".file", "rows would be appended to this file of the configuration: give the export another file")
	}
}

func sameFile(a, b string) bool {
	one, err1 := os.Stat(a)
	other, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(one, other)
}

func checkEndUsers(c processChecks) {
	e := &c.file.EndUsers
	switch n := len(e.Secret); {
	case n == 0 && c.positions.HasValue("end_users"):
		c.check.fail("end_users.secret", "end users are counted by a keyed hash, which needs a secret: make one with head -c 32 /dev/urandom | base64; "+
			"remove end_users to count none")
	case n > 0 && n < minSealKeyLen:
		c.check.fail("end_users.secret", "the secret is shorter than %d characters, so names could be guessed from their hashes: "+
			"make one with head -c 32 /dev/urandom | base64", minSealKeyLen)
	}
	switch name := strings.ToLower(e.Header); {
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
		c.check.fail("end_users.header", "%q is no name of a header: write one such as X-User-Id", e.Header)
	case slices.Contains([]string{"authorization", "x-api-key", "cookie"}, name):
		c.check.fail("end_users.header", "%s carries the client's credential: it cannot name an end user", e.Header)
	}
}
