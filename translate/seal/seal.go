// Package seal encrypts texts into blobs. The client sends a blob back with a later request, so the
// edge does not have to store the text. The text is either the summary of a compacted conversation
// or a model's reasoning. The model needs its reasoning to continue, but the client must not read
// the reasoning or did not request it.
//
// A blob is bound to a model and to an owner, which is the id of an API key. The edge does not open
// the blob if the request comes from another owner or is for another model. A summary is bound only
// to its owner, so its model is empty.
//
// Reasoning that cannot be opened is omitted from the request and counted. This is not an error,
// because agents send back the whole conversation, including reasoning from other providers. A
// summary that cannot be opened is an error, because the conversation would be lost.
//
// # Design
//
// The text is sealed with AES-256-GCM. Each blob has its own key, which HKDF derives from the
// secret, the owner, the model and a random salt. Therefore, even edges that share a secret for
// years never approach the limit on random nonces for one key. A blob identifies its secret by a
// few bytes of a hash, which distinguishes a blob sealed with a rotated secret from a forgery.
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

// MaxText is the maximum length of a sealed text, in bytes.
const MaxText = 256 << 10

// Result is the outcome of sealing a text or opening a blob.
type Result uint8

// The results.
const (
	ResultSealed Result = iota
	ResultOpened
	ResultTooLong       // a text longer than MaxText, which was not sealed
	ResultForeign       // another provider's blob
	ResultUnknownSecret // a blob whose secret is unknown or no longer known
	ResultForged        // a blob that was changed or truncated, or belongs to another owner or model
	ResultCount
)

// String returns the result's name in metrics.
func (r Result) String() string {
	return [...]string{"sealed", "opened", "too_long", "foreign", "stale", "forged"}[r]
}

// Keys contains the secrets of an edge. It is immutable and safe for concurrent use.
type Keys struct {
	secrets   []secret // the first secret seals new blobs; every secret can open blobs
	ephemeral bool     // known only to this process
}

type secret struct {
	name [nameLen]byte
	prk  []byte
}

// A blob is the base64 encoding of magic, the secret's name, a salt, a nonce, and the sealed text
// with its tag.
const (
	nameLen  = 4
	saltLen  = 16
	nonceLen = 12
	headLen  = magicLen + nameLen + saltLen + nonceLen
	magicLen = 3
	tagLen   = 16
)

// blobMagic is at the start of every blob. Its base64 encoding is pst1.
var blobMagic = []byte{0xa6, 0xcb, 0x75}

var maxBlob = base64.StdEncoding.EncodedLen(headLen + MaxText + tagLen)

// NewKeys returns keys for at least one secret. Each secret should be as strong as 32 random bytes.
func NewKeys(secrets ...string) *Keys { return NewKeysFor("reasoning", secrets...) }

// NewKeysFor is like NewKeys, but for a purpose other than reasoning. A text sealed for one purpose
// cannot be opened for another.
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

// NewEphemeralKeys returns keys with a random secret known only to this process.
func NewEphemeralKeys() *Keys {
	k := NewKeys(rand.Text() + rand.Text())
	k.ephemeral = true
	return k
}

// IsEphemeral reports whether the keys come from NewEphemeralKeys.
func (k *Keys) IsEphemeral() bool { return k.ephemeral }

// NewBox returns the box of an owner. The box calls the function count with each result.
func (k *Keys) NewBox(owner string, count func(Result)) Box { return Box{k, owner, "", count} }

// Box seals texts and opens blobs for one owner and one model. The zero Box seals and opens
// nothing.
type Box struct {
	keys         *Keys
	owner, model string
	count        func(Result)
}

// WithModel returns the box for a model.
func (b Box) WithModel(model string) Box {
	b.model = model
	return b
}

// UsesNewestSecret reports whether the blob was sealed with the secret that seals new blobs.
func (b Box) UsesNewestSecret(blob []byte) bool {
	var head [magicLen + nameLen + 2]byte // decoded from 12 characters
	n, err := base64.StdEncoding.Decode(head[:], blob[:min(len(blob), 12)])
	return err == nil && n == len(head) && bytes.Equal(head[magicLen:magicLen+nameLen], b.keys.secrets[0].name[:])
}

// WithoutCounter returns the box without its count function.
func (b Box) WithoutCounter() Box {
	b.count = func(Result) {}
	return b
}

// Seal appends the blob for a text and reports whether it sealed the text. A blob is ASCII without
// quotes or backslashes.
func (b Box) Seal(dst, text []byte) ([]byte, bool) {
	if b.keys == nil {
		return dst, false
	}
	if len(text) > MaxText {
		b.count(ResultTooLong)
		return dst, false
	}
	s := &b.keys.secrets[0]
	blob := make([]byte, headLen, headLen+len(text)+tagLen)
	copy(blob, blobMagic)
	copy(blob[magicLen:], s.name[:])
	if _, err := rand.Read(blob[magicLen+nameLen:]); err != nil {
		panic("BUG: " + err.Error())
	}
	salt, nonce := blob[magicLen+nameLen:headLen-nonceLen], blob[headLen-nonceLen:]
	blob = b.deriveCipher(s, salt).Seal(blob, nonce, text, nil)
	b.count(ResultSealed)
	return base64.StdEncoding.AppendEncode(dst, blob), true
}

// Open appends the text of a blob, and reports whether the blob could be opened.
func (b Box) Open(dst, blob []byte) ([]byte, bool) {
	if b.keys == nil {
		return dst, false
	}
	out, result := b.openBlob(dst, blob)
	b.count(result)
	return out, result == ResultOpened
}

func (b Box) openBlob(dst, text []byte) ([]byte, Result) {
	if !bytes.HasPrefix(text, []byte("pst1")) || len(text) > maxBlob {
		return dst, ResultForeign
	}
	blob, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(blob) < headLen+tagLen {
		return dst, ResultForged // one in 16 million foreign blobs starts with magic
	}
	name, rest := blob[magicLen:magicLen+nameLen], blob[magicLen+nameLen:]
	known := false
	for i := range b.keys.secrets {
		s := &b.keys.secrets[i]
		if !bytes.Equal(name, s.name[:]) {
			continue
		}
		known = true
		salt, nonce, sealed := rest[:saltLen], rest[saltLen:saltLen+nonceLen], rest[saltLen+nonceLen:]
		dst = slices.Grow(dst, len(sealed)) // Open would grow dst only to the exact size
		if out, err := b.deriveCipher(s, salt).Open(dst, nonce, sealed, nil); err == nil {
			return out, ResultOpened
		}
	}
	if !known {
		return dst, ResultUnknownSecret
	}
	return dst, ResultForged
}

func (b Box) deriveCipher(s *secret, salt []byte) cipher.AEAD {
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
