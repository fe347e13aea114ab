package hook

import (
	"errors"
	"slices"

	"penstock/config"
	"penstock/translate/jsonx"
)

// Action is what is to become of a call.
type Action uint8

// The actions.
const (
	Allow   Action = iota // the call continues as it is
	Refuse                // the client gets Status and Message
	Rewrite               // Body replaces the request's body
	Route                 // the call continues as one for Model
)

var actionWords = [...]string{Allow: "allow", Refuse: "refuse", Rewrite: "rewrite", Route: "route"}

// String returns the action's word in answers and metrics.
func (a Action) String() string { return actionWords[a] }

// Decision is a hook's answer. Its body is a part of the answer that was parsed.
type Decision struct {
	Action  Action
	Status  int    // of a refusal
	Message string // of a refusal, for the client
	Body    []byte // a JSON object
	Model   string // an id or an alias
}

// The status and the message of a refusal that names none.
const (
	usualStatus  = 403
	usualMessage = "The request is not allowed here."
)

// maxMessage bounds the message of a refusal, in bytes.
const maxMessage = 2 << 10

// Statuses returns the statuses that a hook may choose for a refusal. Clients know what to do with
// them, and none of them has a meaning of its own for SDKs, except that 429 is sent again.
func Statuses() []int { return []int{400, 403, 422, 429, 451} }

// The members of an answer.
const (
	memberAction = iota
	memberStatus
	memberMessage
	memberBody
	memberModel
	memberCount
)

var memberNames = []string{"action", "status", "message", "body", "model"}

// membersOf lists the members that an answer with an action may have beside the action.
var membersOf = [...][]int{
	Allow: {}, Refuse: {memberStatus, memberMessage}, Rewrite: {memberBody}, Route: {memberModel},
}

// errAnswer says that an answer is not of the documented form. It does not say more, because an
// answer may hold a prompt.
var errAnswer = errors.New("the answer is not a decision")

// Parse parses an answer. It accepts only what README.md describes: an unknown member, a member of
// another action or a value out of bounds makes the answer invalid, because a guess could let a
// call pass that was to be refused.
func Parse(answer []byte) (Decision, error) {
	var doc jsonx.Doc
	if doc.Parse(answer, jsonx.Options{Record: 1}) != nil {
		return Decision{}, errAnswer
	}
	root := doc.Root()
	var members [memberCount]jsonx.Value
	if !root.IsObject() || root.Fields(memberNames, members[:]) != nil {
		return Decision{}, errAnswer
	}
	word, ok := textOf(members[memberAction])
	action := slices.Index(actionWords[:], word)
	if !ok || action < 0 {
		return Decision{}, errAnswer
	}
	d := Decision{Action: Action(action)}
	given := 1
	for _, m := range membersOf[action] {
		if members[m].Exists() {
			given++
		}
	}
	if root.Len() != given || !d.read(&members) {
		return Decision{}, errAnswer
	}
	return d, nil
}

// read reads the members of the decision's action. It returns false if one of them is invalid.
func (d *Decision) read(members *[memberCount]jsonx.Value) (ok bool) {
	switch d.Action {
	case Refuse:
		return d.readRefusal(members[memberStatus], members[memberMessage])
	case Rewrite:
		d.Body = members[memberBody].Raw()
		return members[memberBody].IsObject()
	case Route:
		d.Model, ok = textOf(members[memberModel])
		return ok && config.CanBeModelID(d.Model)
	default:
		return true
	}
}

func (d *Decision) readRefusal(status, message jsonx.Value) bool {
	d.Status, d.Message = usualStatus, usualMessage
	if status.Exists() {
		n, ok := status.Int()
		if !ok || !slices.Contains(Statuses(), int(n)) {
			return false
		}
		d.Status = int(n)
	}
	if message.Exists() {
		text, ok := textOf(message)
		if !ok || text == "" || len(text) > maxMessage {
			return false
		}
		d.Message = text
	}
	return true
}

func textOf(v jsonx.Value) (text string, ok bool) {
	if !v.IsString() {
		return "", false
	}
	return string(v.AppendText(nil)), true
}
