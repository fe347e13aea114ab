// Package enduser identifies the people who use clients' applications. A key often belongs to an
// application, and only the application knows which person a request is for. The application can
// name that person in a header, or in the request members that the APIs define for this purpose.
//
// The edge does not need the name itself, so it keeps a keyed hash: an HMAC with SHA-256 under the
// configuration's secret, cut to 16 bytes. The holder of the secret can compute the hash of a known
// end user. The hashes alone identify no end user, and without the secret nobody can even test a
// guessed name.
//
// A request never fails because of such a header or member. A value that is not a string, is empty
// or is longer than MaxID names no end user. A duplicate member or header names none either,
// because two readers could read it differently.
package enduser

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/telemetry/observe"
	"penstock/translate/jsonx"
)

// MaxID is the maximum length in bytes of an end user's id. The APIs allow 64 to 256.
const MaxID = 512

// Namer computes the names of the end users of one configuration. It may be used from any
// goroutine.
type Namer struct {
	header  string
	readers sync.Pool // of *reader
}

// reader holds the buffers for finding and naming the end user of one request.
type reader struct {
	doc  jsonx.Doc
	mac  hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

// New returns the namer of a configuration, or nil if end users are not configured.
func New(c *config.EndUsers) *Namer {
	secret := []byte(c.Secret.Value())
	if len(secret) == 0 {
		return nil
	}
	return &Namer{header: c.Header, readers: sync.Pool{New: func() any {
		return &reader{mac: hmac.New(sha256.New, secret)}
	}}}
}

// Header returns the name of the header that names the end user; empty: none.
func (n *Namer) Header() string { return n.header }

// Of returns the name of a request's end user. Only a JSON body can name an end user. The result is
// zero if the request names none.
func (n *Namer) Of(h *fasthttp.RequestHeader, body []byte) (name observe.EndUser) {
	r := n.readers.Get().(*reader)
	defer n.readers.Put(r)
	if n.header != "" {
		switch lines := h.PeekAll(n.header); {
		case len(lines) > 1: // a proxy has added a line, so it is unclear which line is valid
			return name
		case len(lines) == 1 && len(lines[0]) > 0:
			return r.name(lines[0])
		}
	}
	return r.name(r.find(body))
}

// name returns the keyed hash of an id.
func (r *reader) name(id []byte) (name observe.EndUser) {
	if len(id) == 0 || len(id) > MaxID {
		return name
	}
	r.mac.Reset()
	r.mac.Write(id)
	copy(name[:], r.mac.Sum(r.sum[:0]))
	return name
}

// members lists the members in which the dialects name an end user, in order of preference.
var members, inMetadata = []string{"safety_identifier", "user", "metadata"}, []string{"user_id"}

// find returns the id in a body, or nil. The id borrows the body's bytes.
func (r *reader) find(body []byte) []byte {
	defer r.doc.Reset()
	if len(body) == 0 || r.doc.Parse(body, jsonx.Options{Record: 2, MaxNodes: maxNodes}) != nil {
		return nil
	}
	var found [3]jsonx.Value
	if r.doc.Root().Fields(members, found[:]) != nil {
		return nil
	}
	var inside [1]jsonx.Value
	if found[2].Fields(inMetadata, inside[:]) != nil {
		return nil
	}
	for _, v := range [...]jsonx.Value{found[0], found[1], inside[0]} {
		if !v.HasText() {
			continue
		}
		if v.End()-v.Start() > longestID {
			return nil
		}
		r.text = v.AppendText(r.text[:0])
		return r.text
	}
	return nil
}

// longestID is the maximum length of an id in JSON: in quotes, with each byte escaped.
const longestID = 6*MaxID + 2

// maxNodes limits the memory for a body with many members.
const maxNodes = 1 << 16
