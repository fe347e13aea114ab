package acme

import (
	"crypto"
	"crypto/tls"
	"encoding/json"
	"errors"
)

// runningOrder is an order as the store has it while it runs, with the key that its certificate is
// for: so another edge can end what a dead one has begun, at whatever point that was.
type runningOrder struct {
	URL string `json:"url,omitempty"`
	Key []byte `json:"key,omitempty"` // PEM
}

// answer is that to a challenge, as the store has it.
type answer struct {
	Token string `json:"token,omitempty"`
	Text  string `json:"text,omitempty"` // what HTTP-01 is answered with
	Pair  []byte `json:"pair,omitempty"` // what TLS-ALPN-01 is answered with, as PEM

	pair *tls.Certificate
}

var errAnswerForm = errors.New("the key of an answer cannot be written")

// MarshalJSON writes the answer for the store.
func (a *answer) MarshalJSON() ([]byte, error) {
	type plain answer
	out := plain(*a)
	if a.pair != nil {
		key, ok := a.pair.PrivateKey.(crypto.Signer)
		if !ok {
			return nil, errAnswerForm
		}
		var err error
		if out.Pair, err = encodePair(key, a.pair.Certificate); err != nil {
			return nil, err
		}
	}
	return json.Marshal(&out)
}

// parseAnswer reads an answer of the store; nil: it has been withdrawn.
func parseAnswer(text []byte) *answer {
	a := new(answer)
	if json.Unmarshal(text, a) != nil || a.Token == "" {
		return nil
	}
	if len(a.Pair) > 0 {
		pair, err := tls.X509KeyPair(a.Pair, a.Pair)
		if err != nil {
			return nil
		}
		a.pair = &pair
	}
	return a
}
