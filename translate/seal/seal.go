// Package seal hides a text in a blob that a client carries from one request to the next: the
// reasoning of a model, which the client may not read, or did not ask to read, and which the model
// needs again to go on; or the summary of a conversation that was compacted. So nothing has to be
// stored here.
//
// A blob is bound to its owner, the id of a key, and to its model: nobody else's request opens it,
// and no other model is given it. A summary is bound to its owner alone: its model is empty.
// Reasoning that does not open is left out of the request and counted. It is no error, because
// agents send back whatever they have, from other providers, too. A summary that does not open is
// one, because it is all that there is of the conversation.
//
// # Design
//
// The text is sealed by AES-256-GCM. Each blob has a key of its own, derived (HKDF) from the
// secret, the owner, the model and a random salt, so that edges which share a secret for years
// never come near to the bound on random nonces of one key. A blob names its secret by a part of a
// hash, so that a secret that has been rotated out is told from a forgery.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
)

// MaxText is the length in bytes of the longest text that is sealed.
const MaxText = 256 << 10

// Result is what has become of a text or of a blob.
type Result uint8

// The results.
const (
	Sealed Result = iota
	Opened
	TooLong // a text of more than MaxText, which was not sealed
	Foreign // a blob of another provider's
	Stale   // a blob of a secret that is not known, or no more
	Forged  // one that was changed or cut, or that is of another owner or model
	Results
)

// String returns the result as metrics call it.
func (r Result) String() string {
	return [...]string{"sealed", "opened", "too_long", "foreign", "stale", "forged"}[r]
}

// Keys are the secrets of an edge. They never change and may be used from any goroutine.
type Keys struct {
	secrets []secret // the first seals, all open
	private bool     // of this process alone
}

type secret struct {
	name [nameLen]byte
	prk  []byte
}

// A blob is the base64 of these: mark, name, salt, nonce, and the sealed text with its tag.
const (
	nameLen  = 4
	saltLen  = 16
	nonceLen = 12
	headLen  = markLen + nameLen + saltLen + nonceLen
	markLen  = 3
	tagLen   = 16
)

// mark is what a blob begins with; in base64 it reads pst1.
var mark = []byte{0xa6, 0xcb, 0x75}

// maxBlob is the length of the longest blob.
var maxBlob = base64.StdEncoding.EncodedLen(headLen + MaxText + tagLen)

// NewKeys returns the keys of these secrets, of which there must be one. Each should have the
// strength of 32 random bytes.
func NewKeys(secrets ...string) *Keys { return NewKeysFor("reasoning", secrets...) }

// NewKeysFor is NewKeys for something else than reasoning: what is sealed for one purpose opens for
// no other, whatever its owner and its model are called.
func NewKeysFor(purpose string, secrets ...string) *Keys {
	k := &Keys{}
	for _, s := range secrets {
		prk, err := hkdf.Extract(sha256.New, []byte(s), []byte("penstock "+purpose))
		if err != nil {
			panic("BUG: " + err.Error())
		}
		sum := sha256.Sum256(append([]byte("name of "), prk...))
		k.secrets = append(k.secrets, secret{[nameLen]byte(sum[:nameLen]), prk})
	}
	return k
}

// PrivateKeys returns keys of a random secret that nobody else has.
func PrivateKeys() *Keys {
	k := NewKeys(rand.Text() + rand.Text())
	k.private = true
	return k
}

// Private reports whether the keys are of PrivateKeys.
func (k *Keys) Private() bool { return k.private }

// Of returns the box of an owner, which tells count what becomes of texts and blobs.
func (k *Keys) Of(owner string, count func(Result)) Box { return Box{k, owner, "", count} }

// Box seals and opens for one owner and one model. The zero Box seals and opens nothing.
type Box struct {
	keys         *Keys
	owner, model string
	count        func(Result)
}

// For returns the box for a model.
func (b Box) For(model string) Box {
	b.model = model
	return b
}

// Newest reports whether a blob names the secret that seals now.
func (b Box) Newest(blob []byte) bool {
	var head [markLen + nameLen + 2]byte // of 12 characters
	n, err := base64.StdEncoding.Decode(head[:], blob[:min(len(blob), 12)])
	return err == nil && n == len(head) && bytes.Equal(head[markLen:markLen+nameLen], b.keys.secrets[0].name[:])
}

// Uncounted returns the box without what it tells.
func (b Box) Uncounted() Box {
	b.count = func(Result) {}
	return b
}

// Seal appends the blob of a text, and reports whether it did. It is plain ASCII without quotes and
// backslashes.
func (b Box) Seal(dst, text []byte) ([]byte, bool) {
	if b.keys == nil {
		return dst, false
	}
	if len(text) > MaxText {
		b.count(TooLong)
		return dst, false
	}
	s := &b.keys.secrets[0]
	blob := make([]byte, headLen, headLen+len(text)+tagLen)
	copy(blob, mark)
	copy(blob[markLen:], s.name[:])
	if _, err := rand.Read(blob[markLen+nameLen:]); err != nil {
		panic("BUG: " + err.Error())
	}
	salt, nonce := blob[markLen+nameLen:headLen-nonceLen], blob[headLen-nonceLen:]
	blob = b.cipher(s, salt).Seal(blob, nonce, text, nil)
	b.count(Sealed)
	return base64.StdEncoding.AppendEncode(dst, blob), true
}

// Open appends the text of a blob, and reports whether it could be opened.
func (b Box) Open(dst, blob []byte) ([]byte, bool) {
	if b.keys == nil {
		return dst, false
	}
	out, result := b.open(dst, blob)
	b.count(result)
	return out, result == Opened
}

func (b Box) open(dst, text []byte) ([]byte, Result) {
	if !bytes.HasPrefix(text, []byte("pst1")) || len(text) > maxBlob {
		return dst, Foreign
	}
	blob, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(blob) < headLen+tagLen {
		return dst, Forged // a foreign one would begin like ours once in 16 million
	}
	name, rest := blob[markLen:markLen+nameLen], blob[markLen+nameLen:]
	known := false
	for i := range b.keys.secrets {
		s := &b.keys.secrets[i]
		if !bytes.Equal(name, s.name[:]) {
			continue
		}
		known = true
		salt, nonce, sealed := rest[:saltLen], rest[saltLen:saltLen+nonceLen], rest[saltLen+nonceLen:]
		dst = slices.Grow(dst, len(sealed)) // the cipher would grow it by just what it needs
		if out, err := b.cipher(s, salt).Open(dst, nonce, sealed, nil); err == nil {
			return out, Opened
		}
	}
	if !known {
		return dst, Stale
	}
	return dst, Forged
}

// cipher is that of one blob.
func (b Box) cipher(s *secret, salt []byte) cipher.AEAD {
	info := binary.AppendUvarint(nil, uint64(len(b.owner)))
	info = append(append(append(info, b.owner...), b.model...), salt...)
	key, err := hkdf.Expand(sha256.New, s.prk, string(info), 32)
	if err == nil {
		var block cipher.Block
		if block, err = aes.NewCipher(key); err == nil {
			var aead cipher.AEAD
			if aead, err = cipher.NewGCM(block); err == nil {
				return aead
			}
		}
	}
	panic("BUG: " + err.Error())
}
