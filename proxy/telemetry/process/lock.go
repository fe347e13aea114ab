package process

import "errors"

// ErrFileLocked means that another process has locked the file.
var ErrFileLocked = errors.New("another process has locked the file")
