// Package unixsocket parses addresses of Unix sockets: unix:/PATH or unix:///PATH.
package unixsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// Prefix is the prefix of a Unix socket's address.
const Prefix = "unix:"

// DefaultMode is the default mode of a listener's socket. It lets the edge's user and group
// connect.
const DefaultMode fs.FileMode = 0o660

// IsAddress reports whether address is a Unix socket.
func IsAddress(address string) bool { return strings.HasPrefix(address, Prefix) }

// ParseListen parses the address of a listener, which is unix:/PATH, or unix:/PATH|MODE with octal
// permissions.
func ParseListen(address string) (file string, mode fs.FileMode, err error) {
	file, digits, given := strings.Cut(pathPart(address), "|")
	mode = DefaultMode
	if given {
		n, err := strconv.ParseUint(digits, 8, 32)
		if err != nil || n > 0o777 || n&0o222 == 0 {
			return "", 0, fmt.Errorf("%q is not a mode in which anyone could connect: write it in octal, such as |0660", digits)
		}
		mode = fs.FileMode(n)
	}
	return file, mode, checkSocketPath(file)
}

// ParseURL parses the address of a server, which is unix:/PATH or unix:/PATH:/BASE. /BASE is the
// path of a single request or the base path of all requests. A final slash of base stays.
func ParseURL(address string) (file, base string, err error) {
	file, base, _ = strings.Cut(pathPart(address), ":")
	if base != "" && !strings.HasPrefix(base, "/") {
		return "", "", errors.New("after the second colon comes the base path, which begins with a slash: unix:/PATH:/BASE")
	}
	return file, base, checkSocketPath(file)
}

// FormatAddress returns the address of a socket at path file.
func FormatAddress(file string) string { return Prefix + file }

// pathPart returns the part after the prefix, with a single slash at the start.
func pathPart(address string) string {
	rest := strings.TrimPrefix(address, Prefix)
	if strings.HasPrefix(rest, "///") {
		return rest[2:]
	}
	return rest
}

// MaxPathBytes returns the maximum length of a socket's path in bytes, as limited by sockaddr_un.
func MaxPathBytes() int {
	if runtime.GOOS == "linux" || runtime.GOOS == "windows" {
		return 107
	}
	return 103
}

func checkSocketPath(file string) error {
	switch {
	case !strings.HasPrefix(file, "/") || file == "/":
		return errors.New("a Unix socket needs its whole path: write unix:/run/NAME.sock")
	case len(file) > MaxPathBytes():
		return fmt.Errorf("the path of the Unix socket has %d bytes, and the system allows %d: choose a shorter one, such as /run/NAME.sock",
			len(file), MaxPathBytes())
	case path.Clean(file) != file:
		return fmt.Errorf("the path of the Unix socket has surplus slashes or dots: write unix:%s", path.Clean(file))
	case strings.ContainsFunc(file, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`:|%?#"\`, r) }):
		return errors.New(`the path of a Unix socket cannot hold blanks or any of : | % ? # " \ here: choose another name`)
	}
	return nil
}
