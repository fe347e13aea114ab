package certstore

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"
)

//go:embed read.lua
var readSource string

//go:embed put.lua
var putSource string

//go:embed claim.lua
var claimSource string

//go:embed release.lua
var releaseSource string

var (
	readScript    = valkey.NewLuaScript(readSource)
	putScript     = valkey.NewLuaScript(putSource)
	claimScript   = valkey.NewLuaScript(claimSource)
	releaseScript = valkey.NewLuaScript(releaseSource)
)

// entriesTTL is how long the store keeps the entries after the last write or lock request. Running
// edges restore entries lost by the store.
const entriesTTL = 400 * 24 * time.Hour

// maxEntriesPerRead is the maximum number of entries in an answer. A certificate with its key and
// intermediates is about 10 KiB in size.
const maxEntriesPerRead = 16

// Link is the connection to the store. *fleet.Link implements Link.
type Link interface {
	Available() bool
	RunScript(ctx context.Context, script *valkey.Lua, key string, args []string) ([]valkey.ValkeyMessage, error)
}

var errUnexpectedReply = errors.New("the store's answer has an unexpected form")

// runScript runs a script and returns the elements of its answer. If the answer has fewer than
// least elements, runScript returns an error.
func (s *Store) runScript(ctx context.Context, script *valkey.Lua, least int, args ...string) ([]string, error) {
	answer, err := s.o.Link.RunScript(ctx, script, s.key, args)
	if err != nil {
		return nil, err
	}
	if len(answer) < least {
		return nil, errUnexpectedReply
	}
	out := make([]string, len(answer))
	for i := range answer {
		if out[i], err = answer[i].ToString(); err != nil {
			return nil, errUnexpectedReply
		}
	}
	return out, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
