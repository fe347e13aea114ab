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

// Place is where a start without a configuration listens, and for which clients.
type Place struct {
	Listen      string // HOST:PORT, :PORT or PORT; empty: the usual port, or the next free one
	AdminListen string // as Listen, for the admin listener
	AdminToken  string // the configuration refers to it as ${PENSTOCK_ADMIN_TOKEN}
	KeyFile     string // holds the clients' key; created if missing; empty: a key for this run
	SharePort   bool
}

// The default addresses of a start without a configuration.
const (
	usualListen      = "127.0.0.1:4000"
	usualAdmin       = "127.0.0.1:9090"
	usualAdminBeside = "127.0.0.1:9091" // used if the API listens on the port of usualAdmin
)

// addresses returns the addresses to listen on. The error names the flag.
func (p *Place) addresses() (public, admin string, err error) {
	if public, err = address("--listen", cmp.Or(p.Listen, usualListen)); err != nil {
		return "", "", err
	}
	usual := usualAdmin
	if strings.HasSuffix(usualAdmin, public[strings.LastIndexByte(public, ':'):]) {
		usual = usualAdminBeside
	}
	if admin, err = address("--admin-listen", cmp.Or(p.AdminListen, usual)); err != nil {
		return "", "", err
	}
	if public == admin {
		return "", "", fmt.Errorf("--admin-listen: the API has %s: give the admin listener another port", public)
	}
	if !config.OnLoopback(admin) && len(p.AdminToken) < leastToken {
		return "", "", fmt.Errorf("--admin-listen: other machines reach %s, so it needs a token: set PENSTOCK_ADMIN_TOKEN to %d characters or more; or write the port alone, for this machine", admin, leastToken)
	}
	return public, admin, nil
}

// leastToken is the minimum length of the token if other machines can reach the admin listener.
const leastToken = 16

// address returns the address from a flag. A port alone means loopback.
func address(flag, at string) (string, error) {
	if _, err := strconv.ParseUint(at, 10, 16); err == nil {
		return "127.0.0.1:" + at, nil
	}
	colon := strings.LastIndexByte(at, ':')
	host := at[:max(0, colon)]
	six := strings.Contains(strings.Trim(host, "[]"), ":") // an IPv6 address is in brackets
	_, err := strconv.ParseUint(at[colon+1:], 10, 16)
	if colon < 0 || err != nil || strings.ContainsAny(host, "/ ") || six != strings.HasPrefix(host, "[") {
		return "", fmt.Errorf("%s: %q is no address: write PORT for this machine alone, :PORT for others, too, or HOST:PORT", flag, at)
	}
	return at, nil
}

// clientKey is the key that clients send.
type clientKey struct {
	plain, hash string
	file        string // the file of the key; empty: the key was made for this run
	made        bool   // the key is new
}

// key makes a key for this run, or reads the key from the file. If the file does not exist, key
// creates it.
func (p *Place) key() (clientKey, error) {
	k := clientKey{file: p.KeyFile, made: true}
	if p.KeyFile != "" {
		text, err := os.ReadFile(p.KeyFile)
		if err == nil {
			k.made, k.plain = false, strings.TrimSpace(string(text))
			k.hash = auth.Hash(k.plain)
			return k, checkKeyFile(p.KeyFile, k.plain)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return k, fmt.Errorf("--key-file: %w", err)
		}
	}
	var err error
	if k.plain, k.hash, err = auth.NewKey(); err != nil || p.KeyFile == "" {
		return k, err
	}
	if err := write(p.KeyFile, []byte(k.plain+"\n")); err != nil {
		return k, fmt.Errorf("--key-file: %w", err)
	}
	return k, nil
}

// checkKeyFile returns the reason why a file's content cannot be the clients' key.
func checkKeyFile(name, plain string) error {
	if plain == "" {
		return fmt.Errorf("--key-file: %s is empty: remove it to have a key made, or write one of 20 random characters or more", name)
	}
	if err := auth.CheckKey(plain); err != nil {
		return fmt.Errorf("--key-file: %s: %w", name, err)
	}
	if auth.Guessable(plain) {
		return fmt.Errorf("--key-file: the key in %s can be guessed: remove the file to have a key made, or write one of 20 random characters or more", name)
	}
	return nil
}
