//go:build !unix

package listen

import "errors"

// sharePort fails: this system has no such option.
func sharePort(uintptr) error { return errors.New("ports cannot be shared on this system") }
