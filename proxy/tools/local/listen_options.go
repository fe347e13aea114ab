package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"penstock/config"
	"penstock/proxy/access/auth"
)

// ListenOptions contains the listen addresses and the keys for a start without a configuration
// file.
type ListenOptions struct {
	// Listen is HOST:PORT, :PORT or PORT. If it is empty, the usual port is used or, if that is in
	// use, the next free port.
	Listen      string
	AdminListen string // same format as Listen, for the admin listener
	// AdminToken is the token that the configuration refers to as ${PENSTOCK_ADMIN_TOKEN}.
	AdminToken string
	// KeyFile is the file with the key for clients. A missing file is created. If KeyFile is empty,
	// a key is made for this run.
	KeyFile   string
	SharePort bool
}

const (
	defaultPublicListen  = "127.0.0.1:4000"
	defaultAdminListen   = "127.0.0.1:9090"
	alternateAdminListen = "127.0.0.1:9091" // used if the API uses the port of defaultAdminListen
)

func (p *ListenOptions) listenAddresses() (public, admin string, err error) {
	if public, err = parseListenAddress("--listen", cmp.Or(p.Listen, defaultPublicListen)); err != nil {
		return "", "", err
	}
	usual := defaultAdminListen
	if strings.HasSuffix(defaultAdminListen, public[strings.LastIndexByte(public, ':'):]) {
		usual = alternateAdminListen
	}
	if admin, err = parseListenAddress("--admin-listen", cmp.Or(p.AdminListen, usual)); err != nil {
		return "", "", err
	}
	if public == admin {
		return "", "", fmt.Errorf("--admin-listen: the API has %s: give the admin listener another port", public)
	}
	if !config.OnLoopback(admin) && len(p.AdminToken) < minTokenBytes {
		return "", "", fmt.Errorf("--admin-listen: other machines reach %s, so it needs a token: set PENSTOCK_ADMIN_TOKEN to %d characters or more; or write the port alone, for this machine", admin, minTokenBytes)
	}
	return public, admin, nil
}

const minTokenBytes = 16

// parseListenAddress returns the listen address for the value of a flag. If the value is just a port,
// the host is the loopback address.
func parseListenAddress(flag, at string) (string, error) {
	if _, err := strconv.ParseUint(at, 10, 16); err == nil {
		return "127.0.0.1:" + at, nil
	}
	colon := strings.LastIndexByte(at, ':')
	host := at[:max(0, colon)]
	six := strings.Contains(strings.Trim(host, "[]"), ":") // an IPv6 address must be in brackets
	_, err := strconv.ParseUint(at[colon+1:], 10, 16)
	if colon < 0 || err != nil || strings.ContainsAny(host, "/ ") || six != strings.HasPrefix(host, "[") {
		return "", fmt.Errorf("%s: %q is no address: write PORT for this machine alone, :PORT for others, too, or HOST:PORT", flag, at)
	}
	return at, nil
}

type clientKey struct {
	plain, hash string
	file        string // file that contains the key; empty if the key is for this run only
	wasCreated  bool
}

// loadOrCreateKey reads the key from KeyFile. If the file does not exist, it is created with a new
// key. If KeyFile is empty, the new key is only for this run.
func (p *ListenOptions) loadOrCreateKey() (clientKey, error) {
	k := clientKey{file: p.KeyFile, wasCreated: true}
	if p.KeyFile != "" {
		text, err := os.ReadFile(p.KeyFile)
		if err == nil {
			k.wasCreated, k.plain = false, strings.TrimSpace(string(text))
			k.hash = auth.HashKey(k.plain)
			return k, checkKeyFromFile(p.KeyFile, k.plain)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return k, fmt.Errorf("--key-file: %w", err)
		}
	}
	var err error
	if k.plain, k.hash, err = auth.NewKey(); err != nil || p.KeyFile == "" {
		return k, err
	}
	if err := createPrivateFile(p.KeyFile, []byte(k.plain+"\n")); err != nil {
		return k, fmt.Errorf("--key-file: %w", err)
	}
	return k, nil
}

func checkKeyFromFile(name, plain string) error {
	if plain == "" {
		return fmt.Errorf("--key-file: %s is empty: remove it to have a key made, or write one of 20 random characters or more", name)
	}
	if err := auth.CheckKey(plain); err != nil {
		return fmt.Errorf("--key-file: %s: %w", name, err)
	}
	if auth.IsGuessable(plain) {
		return fmt.Errorf("--key-file: the key in %s can be guessed: remove the file to have a key made, or write one of 20 random characters or more", name)
	}
	return nil
}
