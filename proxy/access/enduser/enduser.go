// Package enduser identifies the end users of a client application. A key often belongs to an
// application, and only the application knows which person is behind a request. The application can
// name that person in a header, or in the body members that the APIs define for this purpose.
//
// The edge does not need the name itself. It uses a keyed hash instead: an HMAC-SHA256 with the
// configured secret, truncated to 16 bytes. An operator who knows the secret can compute the hash
// of an end user. Anyone who does not know the secret cannot test whether a guessed name matches a
// hash.
//
// A header or member that names an end user never makes a request fail. The edge ignores a value
// that is empty, longer than MaxID, or not a string. It also ignores a header or member that occurs
// twice, because another program might use the other occurrence.
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

// MaxID is the maximum length of an end user's id in bytes. The APIs allow 64 to 256.
const MaxID = 512

// Hasher computes the hashes of end users for one configuration. A Hasher may be used by multiple
// goroutines.
type Hasher struct {
	header     string
	readerPool sync.Pool
}

type idReader struct {
	doc    jsonx.Doc
	mac    hash.Hash
	idBuf  []byte
	sumBuf [sha256.Size]byte
}

// New returns the Hasher for a configuration, or nil if end users are not configured.
func New(c *config.EndUsers) *Hasher {
	secret := []byte(c.Secret.Value())
	if len(secret) == 0 {
		return nil
	}
	return &Hasher{header: c.Header, readerPool: sync.Pool{New: func() any {
		return &idReader{mac: hmac.New(sha256.New, secret)}
	}}}
}

// HeaderName returns the name of the header that identifies the end user. If none is configured, it
// returns "".
func (n *Hasher) HeaderName() string { return n.header }

// HashRequest returns the hash of the end user named in a request, or zero if the request names no
// end user. Only the header or a JSON body can name the end user.
func (n *Hasher) HashRequest(h *fasthttp.RequestHeader, body []byte) (name observe.EndUserHash) {
	r := n.readerPool.Get().(*idReader)
	defer n.readerPool.Put(r)
	if n.header != "" {
		switch lines := h.PeekAll(n.header); {
		case len(lines) > 1: // a proxy may have added one of these headers, and the edge cannot tell which
			return name
		case len(lines) == 1 && len(lines[0]) > 0:
			return r.hashID(lines[0])
		}
	}
	return r.hashID(r.findID(body))
}

func (r *idReader) hashID(id []byte) (name observe.EndUserHash) {
	if len(id) == 0 || len(id) > MaxID {
		return name
	}
	r.mac.Reset()
	r.mac.Write(id)
	copy(name[:], r.mac.Sum(r.sumBuf[:0]))
	return name
}

// idMembers and metadataMembers list the body members that name an end user in any of the dialects,
// in order of preference.
var idMembers, metadataMembers = []string{"safety_identifier", "user", "metadata"}, []string{"user_id"}

// findID returns the id in a body, or nil. The id is valid until findID is called again.
func (r *idReader) findID(body []byte) []byte {
	defer r.doc.Reset()
	if len(body) == 0 || r.doc.Parse(body, jsonx.Options{Record: 2, MaxNodes: maxNodes}) != nil {
		return nil
	}
	var found [3]jsonx.Value
	if r.doc.Root().Fields(idMembers, found[:]) != nil {
		return nil
	}
	var inside [1]jsonx.Value
	if found[2].Fields(metadataMembers, inside[:]) != nil {
		return nil
	}
	for _, v := range [...]jsonx.Value{found[0], found[1], inside[0]} {
		if !v.HasText() {
			continue
		}
		if v.End()-v.Start() > maxEncodedID {
			return nil
		}
		r.idBuf = v.AppendText(r.idBuf[:0])
		return r.idBuf
	}
	return nil
}

// maxEncodedID is the maximum length of an id in JSON, in quotes and with every byte escaped.
const maxEncodedID = 6*MaxID + 2

const maxNodes = 1 << 16
