package acme

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// folder keeps the account's key and the certificates of one directory: those of a directory for
// tests are not taken for its authority's real ones.
type folder struct{ path string }

const accountFile = "account.key"

func certificateFile(name string) string { return name + ".pem" }

// openFolder makes the folder of a directory if it is not there.
func openFolder(base, directory string) (folder, error) {
	f := folder{filepath.Join(base, directoryName(directory))}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return f, fmt.Errorf("certificates cannot be kept: %w", err)
	}
	return f, nil
}

// directoryName is the URL of a directory as the name of a file.
func directoryName(directory string) string {
	name := directory
	if u, err := url.Parse(directory); err == nil {
		name = u.Host + u.Path
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.TrimLeft(name, ".")))
}

// read returns the certificate of a domain; nil: there is none.
func (f folder) read(name string) (*tls.Certificate, error) {
	text, err := f.readFile(certificateFile(name))
	if text == nil {
		return nil, err
	}
	return parsePair(name, text)
}

// readAccount returns the text of the account's key; nil: there is none.
func (f folder) readAccount() ([]byte, error) { return f.readFile(accountFile) }

func (f folder) readFile(file string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(f.path, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// write replaces a file whole: a process that is killed leaves the old one or the new one.
func (f folder) write(file string, text []byte) error {
	next, err := os.CreateTemp(f.path, file+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(next.Name()) //nolint:errcheck // it is there only if something else has failed
	_, err = next.Write(text)
	if err = errors.Join(err, next.Sync(), next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), filepath.Join(f.path, file))
}

const (
	leastPause     = 2 * time.Minute // between two attempts, over restarts, too
	mostRetryAfter = 24 * time.Hour  // that an authority is obeyed for
)

func (f folder) tryFile(name string) string { return filepath.Join(f.path, name+".tried") }

// noteTry notes that an order is attempted now, so that a process which starts again and again
// does not ask each time.
func (f folder) noteTry(name string) { f.noteWait(name, time.Time{}) }

// noteWait notes until when the authority wants to be left alone after an attempt of now.
func (f folder) noteWait(name string, until time.Time) {
	// where it cannot be noted, the certificate could not be kept either, which is logged
	_ = os.WriteFile(f.tryFile(name), until.UTC().AppendFormat(nil, time.RFC3339Nano), 0o600)
	now := time.Now()
	_ = os.Chtimes(f.tryFile(name), now, now)
}

// allowedAt is when an order may be attempted again; the zero time: there was none, or one in a
// future that a clock was set back from.
func (f folder) allowedAt(name string) time.Time {
	info, err := os.Stat(f.tryFile(name))
	if err != nil || info.ModTime().After(time.Now()) {
		return time.Time{}
	}
	at, most := info.ModTime().Add(leastPause), info.ModTime().Add(mostRetryAfter)
	text, _ := os.ReadFile(f.tryFile(name)) // an edge of before has written none
	until, err := time.Parse(time.RFC3339Nano, string(text))
	if err == nil && until.After(at) && !until.After(most) {
		at = until
	}
	return at
}

// encodePair returns a key and its certificates, the domain's first, as PEM.
func encodePair(key crypto.Signer, chain [][]byte) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for _, cert := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})...)
	}
	return text, nil
}

// parsePair reads what encodePair has written, and checks that it is of a name.
func parsePair(name string, text []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(text, text) // checks that the two belong together
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	return &pair, pair.Leaf.VerifyHostname(name)
}

func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the account's key is not in PEM form")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the account's key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the account's key cannot sign")
	}
	return signer, nil
}

// selfSigned returns a certificate that nobody trusts, for those who connect without a name before
// there is any other: the service manager's watchdog and health checks, which do not verify.
func selfSigned() *tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "penstock awaits its certificate"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
