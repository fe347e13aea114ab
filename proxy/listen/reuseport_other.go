//go:build !unix

package listen

import "errors"

// setReusePort fails: this system has no such option.
func setReusePort(uintptr) error { return errors.New("ports cannot be shared on this system") }
