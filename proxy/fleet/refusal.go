package fleet

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
	"go.uber.org/zap"
)

// storePermissions lists the permissions that the store's user needs in addition to access to its keys
// and channels.
const storePermissions = "+evalsha +eval +script|load +hmget +hgetall +hset +hdel +pexpire +time +xadd +xread +publish +subscribe +ping +hello +role +client|setname"

// refusalCode returns the code of an error with which the store rejects a single request. After
// such an error, the store is still usable. For any other error, refusalCode returns "".
func refusalCode(err error) string {
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
	case isUnknownCommand(text):
		return noCommandCode
	case code != strings.ToUpper(code): // the client has removed the prefix ERR
		return "ERR"
	}
	return ""
}

// noCommandCode is the code that refusalCode returns if the store does not know a command. The
// store itself sends no code for this error.
const noCommandCode = "NOCOMMAND"

// isUnknownCommand reports whether an error says that a command is unknown. The text is "unknown
// command 'EVALSHA', with args ..." for a command from the client, and "Unknown Redis command
// called from script" for a command in a script.
func isUnknownCommand(text string) bool {
	text = strings.ToLower(text[:min(len(text), 100)])
	text = strings.TrimPrefix(text, "err ")
	return strings.HasPrefix(text, "unknown command") || strings.HasPrefix(text, "unknown redis command") ||
		strings.HasPrefix(text, "unknown valkey command")
}

// heartbeatRefusalCode returns the code of an error with which the store rejects a heartbeat and
// would reject any other message. For any other error, it returns "".
func heartbeatRefusalCode(err error) string {
	if code := refusalCode(err); code != "" {
		return code
	}
	if errors.Is(err, errReplica) {
		return "READONLY"
	}
	if answer, ok := valkey.IsValkeyErr(err); ok && !answer.IsNil() {
		if code, _, _ := strings.Cut(answer.Error(), " "); rejectionRemedies[code] != "" {
			return code
		}
	}
	return ""
}

// rejectionRemedies maps the error codes with which a store rejects all messages to remedies.
var rejectionRemedies = map[string]string{
	"OOM":        "the store's memory is full: raise its maxmemory, or remove data that is not a fleet's",
	"MISCONF":    "the store cannot write its data to its disk: make room there, or see the store's own log",
	"READONLY":   "this is a replica: name the primary in fleet.store, or the sentinels; an address that moves to the primary is dialled again within 30 s",
	"LOADING":    "the store is loading its data: limits are shared again once it is done",
	"MASTERDOWN": "this is a replica without its primary: name the primary in fleet.store, or the sentinels",
	"NOREPLICAS": "the store has fewer replicas than its min-replicas-to-write: start them, or lower it",
	"NOAUTH":     "give fleet.store the store's user and password",
	noCommandCode: "the store does not have a command that a fleet needs: it is disabled or renamed (rename-command, or a list of the service that runs it), " +
		"or the store is older than Redis 7.0: allow EVALSHA, EVAL, SCRIPT LOAD, HMGET, HGETALL, HSET, HDEL, PEXPIRE, TIME, XADD, XREAD, PUBLISH, SUBSCRIBE and ROLE",
	"WRONGPASS": "correct user and password of fleet.store",
}

func rejectionRemedy(code, prefix string) string {
	if remedy := rejectionRemedies[code]; remedy != "" {
		return remedy
	}
	switch code {
	case "NOPERM":
		return "grant the store's user ~" + prefix + ":* &" + prefix + ":* " + storePermissions
	case "WRONGTYPE":
		return "something other than a fleet writes this key: delete it, or change fleet.store.prefix"
	}
	return "delete this key of the store if something other than a fleet has written it"
}

// refusalLog logs rejections by the store, at most once a minute.
type refusalLog struct {
	log      *zap.Logger
	prefix   string
	loggedAt atomic.Int64
}

func (r *refusalLog) logRefusal(key, code string, err error) {
	now, last := time.Now().Unix(), r.loggedAt.Load()
	if now-last < 60 || !r.loggedAt.CompareAndSwap(last, now) {
		return
	}
	r.log.Warn("the fleet's store refuses commands on one of its keys: the edge does without their result", zap.String("store_key", key),
		zap.Error(err), zap.String("remedy", rejectionRemedy(code, r.prefix)))
}
