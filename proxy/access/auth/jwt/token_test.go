package jwt

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// signed returns a token with the given header and claims, signed with key.
func signed(t testing.TB, header, claims string, key crypto.Signer) string {
	t.Helper()
	input := encoded([]byte(header)) + "." + encoded([]byte(claims))
	sum := sha256.Sum256([]byte(input))
	var signature []byte
	var err error
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		var r, s *big.Int
		if r, s, err = ecdsa.Sign(rand.Reader, k, sum[:]); err == nil {
			signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		}
	case *rsa.PrivateKey:
		signature, err = rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:])
	case ed25519.PrivateKey:
		signature = ed25519.Sign(k, []byte(input))
	}
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + encoded(signature)
}

type issuer struct {
	ec  *ecdsa.PrivateKey
	rsa *rsa.PrivateKey
	ed  ed25519.PrivateKey
	set *Set
	raw string
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{}
	var errs [3]error
	i.ec, errs[0] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	i.rsa, errs[1] = rsa.GenerateKey(rand.Reader, 2048)
	_, i.ed, errs[2] = ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: i.ec.Public(), KeyID: "ec"}, {Key: i.rsa.Public(), KeyID: "rsa", Use: "sig"}, {Key: i.ed.Public(), KeyID: "ed", Algorithm: "EdDSA"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	i.raw = string(text)
	if i.set, err = ParseSet(text); err != nil {
		t.Fatal(err)
	}
	return i
}

const plainClaims = `{"iss":"joe","aud":"here","exp":2000000000}`

// verify verifies a token in the same way as the edge does.
func (i *issuer) verify(token string) (Claims, error) {
	t, err := ParseToken([]byte(token))
	if err != nil {
		return Claims{}, err
	}
	c, _, err := t.Verify(i.set)
	return c, err
}

// TestVectors checks the examples in RFC 7515, A.2 and A.3, and RFC 8037, A.3 and A.4.
func TestVectors(t *testing.T) {
	const claims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
	for name, c := range map[string]struct{ key, token string }{
		"RFC 7515 A.2": {
			`{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}`,
			"eyJhbGciOiJSUzI1NiJ9." + claims + ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
		},
		"RFC 7515 A.3": {
			`{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`,
			"eyJhbGciOiJFUzI1NiJ9." + claims + ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
		},
	} {
		set, err := ParseSet([]byte(`{"keys":[` + c.key + `]}`))
		if err != nil {
			t.Fatal(name, err)
		}
		token, err := ParseToken([]byte(c.token))
		if err != nil {
			t.Fatal(name, err)
		}
		got, _, err := token.Verify(set)
		if err != nil || token.Issuer != "joe" {
			t.Errorf("%s: issuer = %q, %v; want joe", name, token.Issuer, err)
		}
		if _, err := got.CheckAudience([]string{"any"}); !errors.Is(err, ErrAudience) {
			t.Errorf("%s has no audience: %v", name, err)
		}
	}
	// The payload in RFC 8037 is plain text, so the example is not a JWT. However, its key and its
	// signature are valid.
	const ed = `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
	const text = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
	set, err := ParseSet([]byte(`{"keys":[` + ed + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := encoded(set.keys[0].thumbprint[:]); got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("RFC 8037 A.3: the thumbprint is %s", got)
	}
	jws, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jws.Verify(set.keys[0].public); err != nil {
		t.Errorf("RFC 8037 A.4: Verify: %v, want no error", err)
	}
	if _, err := ParseToken([]byte(text)); !errors.Is(err, ErrMalformed) {
		t.Errorf("claims that are no object: %v", err)
	}
}

func TestGoodTokens(t *testing.T) {
	i := newIssuer(t)
	for name, token := range map[string]string{
		"ES256":                signed(t, `{"alg":"ES256","kid":"ec"}`, plainClaims, i.ec),
		"RS256":                signed(t, `{"alg":"RS256","kid":"rsa","typ":"JWT"}`, plainClaims, i.rsa),
		"EdDSA":                signed(t, `{"alg":"EdDSA","kid":"ed","typ":"at+jwt"}`, plainClaims, i.ed),
		"without kid":          signed(t, `{"alg":"EdDSA"}`, plainClaims, i.ed),
		"a long name of a typ": signed(t, `{"alg":"ES256","kid":"ec","typ":"application/AT+jwt"}`, plainClaims, i.ec),
	} {
		if _, err := i.verify(token); err != nil {
			t.Errorf("verify(%s): %v, want no error", name, err)
		}
	}
}

// TestConfusion checks that known attacks on token verifiers fail.
func TestConfusion(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	good := signed(t, `{"alg":"ES256","kid":"ec"}`, plainClaims, i.ec)
	parts := strings.Split(good, ".")
	der, err := x509.MarshalPKIXPublicKey(i.rsa.Public())
	if err != nil {
		t.Fatal(err)
	}
	mac := func(header string, secret []byte) string {
		input := encoded([]byte(header)) + "." + encoded([]byte(plainClaims))
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(input))
		return input + "." + encoded(h.Sum(nil))
	}
	own, err := json.Marshal(jose.JSONWebKey{Key: other.ec.Public(), KeyID: "ec"})
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"none":                       encoded([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".",
		"None":                       encoded([]byte(`{"alg":"None"}`)) + "." + parts[1] + "." + parts[2],
		"no alg":                     encoded([]byte(`{"kid":"ec"}`)) + "." + parts[1] + "." + parts[2],
		"HS256 by the public key":    mac(`{"alg":"HS256","kid":"rsa"}`, der),
		"HS256 by the set":           mac(`{"alg":"HS256"}`, []byte(i.raw)),
		"alg of another kty":         signed(t, `{"alg":"RS256","kid":"ec"}`, plainClaims, i.ec),
		"kid of another kty":         signed(t, `{"alg":"ES256","kid":"rsa"}`, plainClaims, i.ec),
		"ES512":                      signed(t, `{"alg":"ES512","kid":"ec"}`, plainClaims, i.ec),
		"another's key":              signed(t, `{"alg":"ES256","kid":"ec"}`, plainClaims, other.ec),
		"embedded jwk":               signed(t, `{"alg":"ES256","jwk":`+string(own)+`}`, plainClaims, other.ec),
		"jku":                        signed(t, `{"alg":"ES256","kid":"ec","jku":"https://evil.test/keys"}`, plainClaims, other.ec),
		"x5u":                        signed(t, `{"alg":"ES256","kid":"ec","x5u":"https://evil.test/cert"}`, plainClaims, other.ec),
		"crit":                       signed(t, `{"alg":"ES256","kid":"ec","crit":["exp"],"exp":1}`, plainClaims, i.ec),
		"crit of a known member":     signed(t, `{"alg":"ES256","kid":"ec","crit":["b64"],"b64":true}`, plainClaims, i.ec),
		"b64 false":                  signed(t, `{"alg":"ES256","kid":"ec","b64":false}`, plainClaims, i.ec),
		"member twice in the header": signed(t, `{"alg":"ES256","alg":"ES256","kid":"ec"}`, plainClaims, i.ec),
		"member twice in the claims": signed(t, `{"alg":"ES256","kid":"ec"}`, `{"iss":"joe","iss":"mallory","exp":2000000000}`, i.ec),
		"member twice further down":  signed(t, `{"alg":"ES256","kid":"ec"}`, `{"iss":"joe","a":{"b":1,"b":2}}`, i.ec),
		"kid that leads elsewhere":   signed(t, `{"alg":"ES256","kid":"../../../../dev/null"}`, plainClaims, i.ec),
		"kid that is no text":        signed(t, `{"alg":"ES256","kid":["ec"]}`, plainClaims, i.ec),
		"token of another kind":      signed(t, `{"alg":"ES256","kid":"ec","typ":"logout+jwt"}`, plainClaims, i.ec),
		"proof of possession":        signed(t, `{"alg":"ES256","kid":"ec","typ":"dpop+jwt"}`, plainClaims, i.ec),
		"compressed":                 signed(t, `{"alg":"ES256","kid":"ec","zip":"DEF"}`, plainClaims, i.ec),
		"truncated":                  good[:len(good)-4],
		"signature too long":         good + "AAAA",
		"signature of zeros":         parts[0] + "." + parts[1] + "." + encoded(make([]byte, 64)),
		"no signature":               parts[0] + "." + parts[1] + ".",
		"other claims":               parts[0] + "." + encoded([]byte(`{"iss":"joe","sub":"root"}`)) + "." + parts[2],
		"four parts":                 good + ".e30",
		"padding":                    good + "==",
		"line break":                 good[:10] + "\n" + good[10:],
		"JSON serialization":         `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"huge":                       signed(t, `{"alg":"ES256","kid":"ec"}`, `{"iss":"`+strings.Repeat("j", MaxToken)+`"}`, i.ec),
		"claims that are a list":     signed(t, `{"alg":"ES256","kid":"ec"}`, `[]`, i.ec),
		"nothing":                    "..",
		"encrypted":                  encoded([]byte(`{"alg":"dir","enc":"A128GCM"}`)) + "." + parts[1] + "." + parts[2],
	} {
		if _, err := i.verify(token); err == nil {
			t.Errorf("verify(%s) succeeds, want an error", name)
		}
	}
	if _, err := i.verify(good); err != nil {
		t.Errorf("the good one: %v", err)
	}
	// In the base64 encoding of 64 bytes, the last character has four unused bits. If these bits
	// are changed, the token is not valid.
	last := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", good[len(good)-1])
	spelt := good[:len(good)-1] + string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[last^1])
	if _, err := i.verify(spelt); err == nil {
		t.Error("another spelling of the signature is verified")
	}
	// A header that points to other keys is harmless, because the reference is ignored.
	if _, err := i.verify(signed(t, `{"alg":"ES256","kid":"ec","jku":"https://evil.test/","x5u":"https://evil.test/"}`, plainClaims, i.ec)); err != nil {
		t.Errorf("a good token with jku and x5u: %v", err)
	}
	if token, _ := ParseToken([]byte(signed(t, `{"alg":"ES256","kid":"new"}`, plainClaims, other.ec))); token != nil {
		if _, _, err := token.Verify(i.set); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("a key that is not there: %v", err)
		}
	}
}

func TestCheck(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	i := newIssuer(t)
	for claims, want := range map[string]error{
		`{"aud":"here","exp":1800000060}`:           nil,
		`{"aud":["there","here"],"exp":1800000060}`: nil,
		`{"aud":"here","exp":1799999941}`:           nil, // within the leeway
		`{"aud":"here","exp":1800000001.5}`:         nil,
		`{"aud":"here","exp":1799999940}`:           ErrExpired,
		`{"aud":"here","exp":0}`:                    ErrExpired,
		`{"aud":"here"}`:                            ErrMalformed,
		`{"aud":"here","exp":"1800000060"}`:         ErrMalformed,
		`{"aud":"here","exp":-1}`:                   ErrMalformed,
		`{"aud":"here","exp":1e300}`:                ErrMalformed,
		`{"aud":"here","exp":null}`:                 ErrMalformed,
		`{"aud":"there","exp":1800000060}`:          ErrAudience,
		`{"aud":["here "],"exp":1800000060}`:        ErrAudience,
		`{"aud":[["here"]],"exp":1800000060}`:       ErrAudience,
		`{"aud":{"here":1},"exp":1800000060}`:       ErrAudience,
		// The member names of an object are not audiences.
		`{"aud":{"here":{"x":1}},"exp":1800000060}`:          ErrAudience,
		`{"Aud":"here","exp":1800000060}`:                    ErrAudience,
		`{"exp":1800000060}`:                                 ErrAudience,
		`{"aud":"here","exp":1800001000,"nbf":1800000060}`:   nil,
		`{"aud":"here","exp":1800001000,"nbf":1800000061}`:   ErrNotYet,
		`{"aud":"here","exp":1800001000,"iat":1800000061}`:   ErrNotYet,
		`{"aud":"here","exp":1800001000,"nbf":"1800000061"}`: ErrMalformed,
	} {
		c, err := i.verify(signed(t, `{"alg":"EdDSA","kid":"ed"}`, claims, i.ed))
		if err != nil {
			t.Fatal(claims, err)
		}
		times, err := c.CheckAudience([]string{"other", "here"})
		if err == nil {
			err = times.CheckTime(now)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", claims, err, want)
		}
	}
}

func TestParseSet(t *testing.T) {
	const ed = `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"k"}`
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	short, err := json.Marshal(jose.JSONWebKey{Key: small.Public()})
	if err != nil {
		t.Fatal(err)
	}
	for text, keys := range map[string]int{
		`{"keys":[` + ed + `]}`:            1,
		`{"keys":[` + ed + `,` + ed + `]}`: 1, // the same key is listed twice
		// Two keys have the same kid.
		`{"keys":[` + ed + `,` + strings.Replace(ed, "11qY", "21qY", 1) + `]}`:                                                                      2,
		`{"keys":[` + ed + `,{"kty":"new"},{"kty":"oct","k":"AA"},7]}`:                                                                              1,
		`{"keys":[` + strings.Replace(ed, `"kid"`, `"use":"enc","kid"`, 1) + `]}`:                                                                   0,
		`{"keys":[` + strings.Replace(ed, `"kid"`, `"alg":"HS256","kid"`, 1) + `]}`:                                                                 0,
		`{"keys":[` + strings.Replace(ed, `"kid"`, `"d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A","kid"`, 1) + `]}`:                             0,
		`{"keys":[` + string(short) + `]}`:                                                                                                          0,
		`{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"}]}`: 0,
		`{"keys":[]}`:               0, // the issuer has withdrawn all its keys
		`{"keys":{}}`:               0,
		`{}`:                        0,
		`[` + ed + `]`:              0,
		``:                          0,
		strings.Repeat("[", MaxSet): 0,
		`{"keys":[` + ed + `],"pad":"` + strings.Repeat("x", MaxSet) + `"}`: 0,
	} {
		set, err := ParseSet([]byte(text))
		switch {
		case err == nil && keys == 0 && text != `{"keys":[]}`:
			t.Errorf("%.80s is no error", text)
		case err == nil && set.Len() != keys:
			t.Errorf("%.80s: %d keys, want %d", text, set.Len(), keys)
		case err != nil && keys != 0:
			t.Errorf("ParseSet(%.80s): %v, want %d keys", text, err, keys)
		}
	}
}

// TestSeveralKeys checks that at most 8 keys are tried if the token has no kid or multiple keys
// have its kid.
func TestSeveralKeys(t *testing.T) {
	other := newIssuer(t)
	var keys []ed25519.PrivateKey
	for range maxKeysTried + 1 {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, private)
	}
	for _, id := range []string{"", "one"} {
		// This key is not tried, because it is for another algorithm.
		list := []jose.JSONWebKey{{Key: other.ec.Public(), KeyID: id}}
		for _, k := range keys {
			list = append(list, jose.JSONWebKey{Key: k.Public(), KeyID: id})
		}
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: list})
		if err != nil {
			t.Fatal(err)
		}
		set, err := ParseSet(text)
		if err != nil {
			t.Fatal(err)
		}
		header := `{"alg":"EdDSA"}`
		if id != "" {
			header = `{"alg":"EdDSA","kid":"one"}`
		}
		for i, k := range keys {
			token, err := ParseToken([]byte(signed(t, header, plainClaims, k)))
			if err != nil {
				t.Fatal(err)
			}
			var want error
			if i >= maxKeysTried {
				want = ErrSignature
			}
			if _, print, err := token.Verify(set); !errors.Is(err, want) || err == nil && !set.HasThumbprint(print) {
				t.Errorf("kid %q, key %d: %v, want %v", id, i, err, want)
			}
		}
	}
}

// FuzzParse checks that malformed tokens are rejected without a panic, and that only signed tokens
// pass verification.
func FuzzParse(f *testing.F) {
	i := newIssuer(f)
	good := signed(f, `{"alg":"EdDSA","kid":"ed"}`, plainClaims, i.ed)
	for _, seed := range []string{good, "..", "a.b.c", good[:40], strings.Replace(good, ".", "..", 1)} {
		f.Add(seed, i.raw)
	}
	f.Fuzz(func(t *testing.T, token, set string) {
		if c, err := i.verify(token); err == nil && token != good {
			t.Errorf("%q is verified: %v", token, c)
		}
		var raw struct{ Keys []any }
		if s, err := ParseSet([]byte(set)); err == nil && s.Len() == 0 && (json.Unmarshal([]byte(set), &raw) != nil || len(raw.Keys) > 0) {
			t.Errorf("%q has no keys that count and is no error", set)
		}
	})
}
