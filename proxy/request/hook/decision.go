package hook

import (
	"errors"
	"slices"

	"penstock/config"
	"penstock/translate/jsonx"
)

// Action is what a hook decides for a call.
type Action uint8

// The actions.
const (
	Allow   Action = iota // the call continues unchanged
	Refuse                // the call is rejected with Status and Message
	Rewrite               // Body replaces the request body
	Route                 // the call continues with the model named by Model
)

var actionWords = [...]string{Allow: "allow", Refuse: "refuse", Rewrite: "rewrite", Route: "route"}

// String returns the name of the action in answers and metrics.
func (a Action) String() string { return actionWords[a] }

// Decision is a hook's answer. Its strings and bytes may share memory with the parsed answer.
type Decision struct {
	Action  Action
	Status  int
	Message string
	Body    []byte // a JSON object, for Rewrite
	Model   string // an id or an alias, for Route
}

const (
	usualStatus  = 403
	usualMessage = "The request is not allowed here."
)

const maxMessage = 2 << 10

// Statuses returns the statuses with which a hook may reject a call. All clients handle them. SDKs
// give none of them a special meaning, except that they retry after a 429.
func Statuses() []int { return []int{400, 403, 422, 429, 451} }

const (
	memberAction = iota
	memberStatus
	memberMessage
	memberBody
	memberModel
	memberCount
)

var memberNames = []string{"action", "status", "message", "body", "model"}

// membersOf lists, for each action, the members that an answer may contain in addition to action.
var membersOf = [...][]int{
	Allow: {}, Refuse: {memberStatus, memberMessage}, Rewrite: {memberBody}, Route: {memberModel},
}

// Parse parses an answer. It accepts only the format described in README.md. An answer is invalid
// if it contains an unknown member, a member that belongs to another action, or an invalid value.
// If Parse ignored such mistakes, it might admit a call that the hook meant to reject. If the
// answer is valid, the Detail is empty. The Detail never contains text from the answer, which may
// quote a prompt.
func Parse(answer []byte) (Decision, Detail) {
	var doc jsonx.Doc
	if doc.Parse(answer, jsonx.Options{Record: 1}) != nil {
		return Decision{}, DetailNotJSON
	}
	root := doc.Root()
	var members [memberCount]jsonx.Value
	if !root.IsObject() {
		return Decision{}, DetailNotAnObject
	}
	if err := root.Fields(memberNames, members[:]); err != nil {
		if other, ok := errors.AsType[*jsonx.MemberError](err); ok && other.Problem == jsonx.CaseVariant {
			return Decision{}, DetailWrongCase
		}
		return Decision{}, DetailMemberTwice
	}
	word, ok := textOf(members[memberAction])
	if !ok {
		return Decision{}, DetailNoAction
	}
	action := slices.Index(actionWords[:], word)
	if action < 0 {
		return Decision{}, DetailUnknownAction
	}
	d := Decision{Action: Action(action)}
	given := 1
	for _, m := range membersOf[action] {
		if members[m].Exists() {
			given++
		}
	}
	if root.Len() != given {
		return Decision{}, DetailOtherMember
	}
	if wrong := d.read(&members); wrong != "" {
		return Decision{}, wrong
	}
	return d, ""
}

func (d *Decision) read(members *[memberCount]jsonx.Value) Detail {
	switch d.Action {
	case Refuse:
		return d.readRefusal(members[memberStatus], members[memberMessage])
	case Rewrite:
		if !members[memberBody].IsObject() {
			return DetailBody
		}
		d.Body = members[memberBody].Raw()
	case Route:
		model, ok := textOf(members[memberModel])
		if !ok || !config.CanBeModelID(model) {
			return DetailModel
		}
		d.Model = model
	default:
	}
	return ""
}

func (d *Decision) readRefusal(status, message jsonx.Value) Detail {
	d.Status, d.Message = usualStatus, usualMessage
	if status.Exists() {
		n, ok := status.Int()
		if !ok || !slices.Contains(Statuses(), int(n)) {
			return DetailStatus
		}
		d.Status = int(n)
	}
	if message.Exists() {
		text, ok := textOf(message)
		if !ok || text == "" || len(text) > maxMessage {
			return DetailMessage
		}
		d.Message = text
	}
	return ""
}

func textOf(v jsonx.Value) (text string, ok bool) {
	if !v.IsString() {
		return "", false
	}
	return string(v.AppendText(nil)), true
}
