package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"penstock/translate/jsonx"
)

// Salt makes an engine keep what it has cached of prompts apart by whose they are: it uses a cached
// beginning only for requests with the same salt. The zero value leaves requests as they are.
type Salt struct {
	Member string // the engine's name for it
	Owner  string // whose prompts may share a cache; empty: all clients share
}

// Wanted reports whether requests are salted.
func (s Salt) Wanted() bool { return s.Member != "" && s.Owner != "" }

// Take removes the client's own salts from a request and returns the text of the salt for the
// engine, a JSON string. It depends on the owner and on what the client wrote: a client may keep
// its users apart, and cannot come near to another owner's prompts whatever it writes. The owner
// cannot be read from it.
func (s Salt) Take(edits *jsonx.Edits, root jsonx.Value) []byte {
	h := sha256.New()
	h.Write([]byte("prompt cache\x00" + s.Owner))
	for it := root.Iter(); it.Next(); {
		if bytes.EqualFold(nameOf(it.Key()), []byte(s.Member)) {
			h.Write([]byte{0})
			h.Write(it.Value().Raw())
			edits.Delete(it.Value())
		}
	}
	var sum [sha256.Size]byte
	const bytesTold = 16 // an engine hashes it with every block
	out := make([]byte, 0, 2*bytesTold+2)
	return append(hex.AppendEncode(append(out, '"'), h.Sum(sum[:0])[:bytesTold]), '"')
}
