package fleet

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
	"go.uber.org/zap"
)

// storeRights are what the store's user needs beside its keys and channels.
const storeRights = "+evalsha +eval +script|load +hmget +hgetall +hset +hdel +pexpire +time +xadd +xread +publish +subscribe +ping +hello +client|setname"

// refusalOf returns the code of an error by which the store refuses what it was asked: it is there,
// and only what it was asked of is in the way. Other errors say that it cannot be used now.
func refusalOf(err error) string {
	answer, ok := valkey.IsValkeyErr(err)
	if !ok || answer.IsNil() {
		return ""
	}
	text := answer.Error()
	switch code, _, _ := strings.Cut(text, " "); {
	case code == "WRONGTYPE", code == "NOPERM":
		return code
	case strings.HasPrefix(text, "The user executing the script can't run"):
		return "NOPERM"
	case code != strings.ToUpper(code): // the client has cut off ERR
		return "ERR"
	}
	return ""
}

// remedyOf says what ends a refusal.
func remedyOf(code, prefix string) string {
	switch code {
	case "NOPERM":
		return "grant the store's user ~" + prefix + ":* &" + prefix + ":* " + storeRights
	case "WRONGTYPE":
		return "something else than a fleet writes this key: delete it, or give fleet.store.prefix another value"
	}
	return "delete this key of the store, if something else than a fleet has written it"
}

// refusals tells of refusals, at most once a minute.
type refusals struct {
	log    *zap.Logger
	prefix string
	told   atomic.Int64
}

func (r *refusals) tell(key, code string, err error) {
	now, told := time.Now().Unix(), r.told.Load()
	if now-told < 60 || !r.told.CompareAndSwap(told, now) {
		return
	}
	r.log.Warn("the fleet's store refuses what it is asked of a key of its own: that is done without it", zap.String("store_key", key),
		zap.Error(err), zap.String("remedy", remedyOf(code, r.prefix)))
}
