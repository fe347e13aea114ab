package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"penstock/config/strictyaml"
)

// Issuer is an identity provider whose tokens (JWT) the edge accepts in addition to keys.
type Issuer struct {
	// The iss claim in the issuer's tokens must equal this text.
	Issuer string `yaml:"issuer"`
	// The ids of the issuer's callers start with this name, as in NAME/alice. The default is the
	// host of `issuer`.
	Name string `yaml:"name"`
	// The aud claim in the issuer's tokens must contain this value, or one of these values.
	Audience Audiences `yaml:"audience"`
	// The issuer's public keys are in a file (file:PATH), or at this https URL.
	JWKS string `yaml:"jwks"`
	// These settings define the meaning of the claims in a token.
	Claims IssuerClaims `yaml:"claims"`

	Set []byte `yaml:"-"` // content of the file in JWKS
}

// IssuerClaims defines the meaning of a token's claims. A dot selects a claim within another claim,
// as in realm_access.roles. A claim whose full name equals the text, including its dots, takes
// precedence, as in https://example.com/roles.
type IssuerClaims struct {
	// This claim identifies the caller for limits and usage. A dot selects a claim within another
	// claim, as in realm_access.roles.
	Key string `yaml:"key"`
	// The first template that matches a token defines its rights. The edge refuses a token that
	// matches no template.
	Templates []IssuerTemplate `yaml:"templates"`
}

// IssuerTemplate gives tokens the rights and limits of an entry in `keys`.
type IssuerTemplate struct {
	// The template compares this claim, which may be a text, a list or an object. If it is omitted,
	// every token matches.
	Claim string `yaml:"claim"`
	// The claim must have this value. If the claim is a list, one of its entries must have the
	// value. If it is an object, one of its members must have this name. A trailing * matches any
	// suffix.
	Value string `yaml:"value"`
	// The token gets the rights and limits of the entry in `keys` with this id. That entry needs no
	// hash.
	Key string `yaml:"key"`
}

// Audiences is written as a string or a list of strings.
type Audiences []string

// BindNode accepts one string, or a list of strings.
func (a *Audiences) BindNode(b *strictyaml.Binder, n strictyaml.Node) {
	all := make([]string, 1)
	if n.IsList() {
		b.BindList(n, &all)
	} else {
		b.BindScalar(n, &all[0])
	}
	*a = all
}

// SetDefaults sets the defaults of an entry in issuers before it is read.
func (i *Issuer) SetDefaults() { i.Claims.Key = "sub" }

const keysFilePrefix = "file:"

// KeySetURL returns the URL of the issuer's keys, or false if the keys are in a file.
func (i *Issuer) KeySetURL() (string, bool) {
	return i.JWKS, !strings.HasPrefix(i.JWKS, keysFilePrefix)
}

// jwksFile returns the path of the issuer's keys, or "" if they are at a URL.
func (i *Issuer) jwksFile() string {
	name, ok := strings.CutPrefix(i.JWKS, keysFilePrefix)
	if !ok {
		return ""
	}
	return name
}

// IssuerKeySetURLs returns the URLs of the issuers' keys. If f requires no credentials, it returns nil.
func IssuerKeySetURLs(f *File) (all []string) {
	if f.Auth == AuthNone {
		return nil
	}
	for i := range f.Issuers {
		if at, ok := f.Issuers[i].KeySetURL(); ok {
			all = append(all, at)
		}
	}
	return all
}

// CheckIssuerKeySets calls check with each key set that was read from a file, and reports the errors that
// check returns.
func CheckIssuerKeySets(f *File, check func(set []byte) error) strictyaml.Problems {
	c := f.newChecks().check
	for i := range f.Issuers {
		if is := &f.Issuers[i]; is.jwksFile() != "" {
			if err := check(is.Set); err != nil {
				c.fail(entryPath("issuers", i)+".jwks", "%s: %s", is.jwksFile(), err)
			}
		}
	}
	return c.Problems()
}

func isIssuerTemplateKey(all []Issuer, id string) bool {
	return slices.ContainsFunc(all, func(is Issuer) bool {
		return slices.ContainsFunc(is.Claims.Templates, func(t IssuerTemplate) bool { return t.Key == id })
	})
}

type issuerChecks struct{ checks }

func (c issuerChecks) checkAll() {
	issuers, names := map[string]string{}, map[string]string{}
	for i := range c.file.Issuers {
		is, at := &c.file.Issuers[i], entryPath("issuers", i)
		c.check.checkUnique(at+".issuer", "an issuer needs the iss of its tokens, such as https://login.example.com", "issuer", is.Issuer, issuers)
		if is.Issuer != "" {
			c.check.checkName(at+".name", "give the issuer a name, which begins the ids of its callers", "name", is.Name, names)
			if strings.Contains(is.Name, "/") {
				c.check.fail(at+".name", "%s: leave the / out: callers are called NAME/SUBJECT, so a caller of another issuer could have the same id", c.positions.QuoteValue(at+".name", is.Name))
			}
		}
		c.checkSource(at, is)
		if len(is.Audience) == 0 || is.Audience[0] == "" {
			c.check.fail(at+".audience", "without an audience, tokens meant for other services would be accepted: write the aud of this API's tokens")
		}
		if is.Claims.Key == "" {
			c.check.fail(at+".claims.key", "name the claim that tells callers apart, or leave it out for sub")
		}
		c.checkTemplates(at+".claims.templates", is)
	}
}

func (c issuerChecks) checkSource(at string, is *Issuer) {
	path := at + ".jwks"
	if is.JWKS == "" {
		c.check.fail(path, "an issuer needs its public keys: write file:PATH, or the https URL at which it publishes them (jwks_uri)")
		return
	}
	address, ok := is.KeySetURL()
	if !ok {
		return
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		c.check.fail(path, "this is neither file:PATH nor an https URL without a user and a fragment")
	case u.Scheme == "http" && !isLoopbackHost(u.Hostname()):
		c.check.fail(path, "anyone on the network path could replace the keys: write https (http is for loopback)")
	}
}

func isLoopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

func (c issuerChecks) checkTemplates(path string, is *Issuer) {
	if len(is.Claims.Templates) == 0 {
		c.check.fail(path, "the issuer's tokens have no rights: add { key: ID }, the id of an entry in keys, for all tokens or by a claim")
	}
	unsure := c.positions.HasUnknownNames("keys", "id")
	for i, t := range is.Claims.Templates {
		at := entryPath(path, i)
		switch {
		case t.Key == "":
			c.check.fail(at+".key", "name the entry of the keys that gives the rights")
		case !unsure && !c.hasKeyWithID(t.Key):
			c.check.fail(at+".key", "there is no key %s%s", c.positions.QuoteValue(at+".key", t.Key), c.check.didYouMean(t.Key, c.allKeyIDs))
		}
		switch {
		case (t.Claim == "") != (t.Value == ""):
			c.check.fail(at, "claim and value go together: give both, or none for every token")
		case t.Claim == "" && i < len(is.Claims.Templates)-1:
			c.check.fail(at, "it matches every token, so the entries after it are never reached: put it last")
		case strings.Contains(strings.TrimSuffix(t.Value, "*"), "*"):
			c.check.fail(at+".value", "%s: a * is allowed at the end only", c.positions.QuoteValue(at+".value", t.Value))
		}
	}
	for i := range c.file.Keys {
		if id := c.file.Keys[i].ID; is.Name != "" && strings.HasPrefix(id, is.Name+"/") {
			c.check.fail(entryPath("keys", i)+".id", "%s could be the id of a caller of issuer %s: choose another one",
				c.positions.QuoteValue(entryPath("keys", i)+".id", id), is.Name)
		}
	}
}

func (c issuerChecks) hasKeyWithID(id string) bool {
	for i := range c.file.Keys {
		if c.file.Keys[i].ID == id {
			return true
		}
	}
	return false
}

func (c issuerChecks) allKeyIDs() (ids []string) {
	for i := range c.file.Keys {
		ids = append(ids, c.file.Keys[i].ID)
	}
	return ids
}
