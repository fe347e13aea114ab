//go:build !amd64 && !arm64

package chat

// On these processors, isBase64ByWord checks base64.
var hasVectorBase64 = false

func vectorBase64(*byte, int) bool { panic("chat: no vectors here") }
