package config

import (
	"slices"
	"strings"
	"time"
)

// engines checks the file's own profiles: what Engine.Problems finds in each, and that `like` leads somewhere.
func (c *checker) engines() {
	seen := map[string]string{}
	for i := range c.file.Engines {
		e, at := &c.file.Engines[i], element("engines", i)
		for _, p := range e.Problems() {
			member, message, _ := strings.Cut(p, ": ")
			c.fail(at+"."+member, "%s", message)
		}
		if e.Name != "" {
			c.name(at+".name", "", "profile name", e.Name, seen)
		}
		names := c.engineNames()
		switch {
		case e.Like == "" || c.known.Engines == nil || c.namesUnsure("engines", "name"):
		case !slices.Contains(names, e.Like):
			c.fail(at+".like", "there is no engine %s%s", c.show(at+".like", e.Like), c.didYouMean(e.Like, c.engineNames))
		case c.madeOfItself(e):
			c.fail(at+".like", "the profile would be made of itself")
		}
	}
}

// madeOfItself follows `like` through the file's own profiles, which take the place of bundled ones of the same name.
func (c *checker) madeOfItself(e *Engine) bool {
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

// engineNames lists the profiles there are: the bundled ones and the file's own.
func (c *checker) engineNames() []string {
	names := slices.Clone(c.known.Engines)
	for i := range c.file.Engines {
		names = append(names, c.file.Engines[i].Name)
	}
	return names
}

func (c *checker) upstreams() {
	names, urls := map[string]string{}, map[string]string{}
	used, sure := c.usedUpstreams()
	for i := range c.file.Upstreams {
		u, at := &c.file.Upstreams[i], element("upstreams", i)
		c.name(at+".name", "an upstream needs a name", "upstream name", u.Name, names)
		c.url(at+".url", u, urls)
		c.engine(at+".engine", u.Engine)
		c.pools(at+".concurrency", u.Concurrency)
		c.probe(at+".probe", u.Probe)
		c.upstreamTLS(at+".tls", u)
		c.eachOneOf(at+".native", "upstreams.native", "a dialect that can be passed through", u.Native)
		if u.Weight <= 0 || u.Weight > 1000 {
			c.fail(at+".weight", "%v is out of range: above 0, up to 1000; to give an upstream no calls take it out of the deployments", u.Weight)
		}
		if u.Resolve != 0 && u.Resolve < Duration(time.Second) {
			c.fail(at+".resolve", "%s is too often: at least 1s, or 0 to resolve once", u.Resolve)
		}
		if sure && u.Name != "" && !used[u.Name] {
			c.warn(at, "no model uses the upstream %s", c.show(at+".name", u.Name))
		}
	}
}

func (c *checker) url(path string, u *Upstream, seen map[string]string) {
	if u.URL == "" {
		c.fail(path, "an upstream needs a url, such as http://10.0.0.11:8000")
		return
	}
	if err := checkBaseURL(u.URL); err != nil {
		c.fail(path, "%s", err)
		return
	}
	for _, own := range []struct{ setting, listen string }{{"listen", c.file.Listen}, {"admin.listen", c.file.Admin.Listen}} {
		if leadsTo(u.URL, own.listen) {
			c.warn(path, "this is where the edge itself listens (%s): write the engine's address, or no call finds an engine", own.setting)
		}
	}
	if first, twice := seen[u.URL]; twice {
		c.warn(path, "another upstream has this url, so the engine is counted twice: first %s", c.place(first, path))
		return
	}
	seen[u.URL] = path
}

func (c *checker) engine(path, name string) {
	if name == EngineAuto || c.known.Engines == nil || c.namesUnsure("engines", "name") {
		return
	}
	if names := c.engineNames(); !slices.Contains(names, name) {
		c.fail(path, "there is no engine %s%s", c.show(path, name), hint(name, choices(names)))
	}
}

// choices is what engine may say: auto, and every profile that has a name.
func choices(profiles []string) []string {
	named := slices.DeleteFunc(slices.Clone(profiles), func(name string) bool { return name == "" || name == EngineAuto })
	return append([]string{EngineAuto}, named...)
}

// pools checks numbers of a Concurrency; that one of them is above 0 is checked where it is read.
func (c *checker) pools(path string, p Concurrency) {
	const most = 1e6
	if p.Shared != 0 {
		c.number(path, p.Shared, 1, most)
	}
	c.number(path+".text", p.Text, 0, most)
	c.number(path+".vision", p.Vision, 0, most)
	c.number(path+".audio", p.Audio, 0, most)
}

func (c *checker) probe(path string, p Probe) {
	if p.Path != "" && (!strings.HasPrefix(p.Path, "/") || strings.ContainsFunc(p.Path, func(r rune) bool { return r <= ' ' || r > '~' })) {
		c.fail(path+".path", "%s must begin with / and hold no blanks", c.show(path+".path", p.Path))
	}
	if p.Interval < Duration(100*time.Millisecond) {
		c.fail(path+".interval", "%s is too often: at least 100ms", p.Interval)
	}
	c.number(path+".fall", p.Fall, 1, 1000)
	c.number(path+".rise", p.Rise, 1, 1000)
}

func (c *checker) upstreamTLS(path string, u *Upstream) {
	if (u.TLS.Cert == "") != (u.TLS.Key == "") {
		c.fail(path, "cert and key go together: give both or none")
	}
	if u.TLS != (UpstreamTLS{}) && strings.HasPrefix(u.URL, "http://") {
		c.fail(path, "the url is http, so none of this is used: write https or take it out")
	}
	if u.TLS.Insecure && u.TLS.CA != "" {
		c.fail(path+".insecure", "with insecure nothing is verified, so ca has no use: take one of them out")
	}
	if u.TLS.Insecure && strings.HasPrefix(u.URL, "https://") {
		c.warn(path+".insecure", "the engine's certificate is not verified: whoever is in between can read prompts and take the engine's key")
	}
}

// usedUpstreams names the upstreams that some model is deployed on. It is not sure when a deployment was not read or names
// an upstream that does not exist: that may be the one that then seems to be unused.
func (c *checker) usedUpstreams() (used map[string]bool, sure bool) {
	used, sure = map[string]bool{}, !c.namesUnsure("models", "deployments")
	for i := range c.file.Models {
		for _, d := range c.file.Models[i].Deployments {
			used[d.Upstream] = true
			sure = sure && c.upstream(d.Upstream) >= 0
		}
	}
	return used, sure
}
