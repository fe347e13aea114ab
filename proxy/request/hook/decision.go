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
	ActionAllow   Action = iota // the call continues unchanged
	ActionRefuse                // the call is rejected with Status and Message
	ActionRewrite               // Body replaces the request body
	ActionRoute                 // the call continues with the model named by Model
)

var actionNames = [...]string{ActionAllow: "allow", ActionRefuse: "refuse", ActionRewrite: "rewrite", ActionRoute: "route"}

// String returns the name of the action in answers and metrics.
func (a Action) String() string { return actionNames[a] }

// Decision is a hook's answer. Its strings and bytes may share memory with the parsed answer.
type Decision struct {
	Action  Action
	Status  int
	Message string
	Body    []byte // JSON object for ActionRewrite
	Model   string // model id or alias for ActionRoute
}

const (
	defaultStatus  = 403
	defaultMessage = "The request is not allowed here."
)

const maxRefusalMessage = 2 << 10

// AllowedStatuses returns the statuses with which a hook may reject a call. All clients handle
// them. SDKs give none of them a special meaning, except that they retry after a 429.
func AllowedStatuses() []int { return []int{400, 403, 422, 429, 451} }

const (
	memberActionIndex = iota
	memberStatusIndex
	memberMessageIndex
	memberBodyIndex
	memberModelIndex
	memberCount
)

var memberNames = []string{"action", "status", "message", "body", "model"}

// actionMembers lists, for each action, the members that an answer may contain in addition to
// action.
var actionMembers = [...][]int{
	ActionAllow: {}, ActionRefuse: {memberStatusIndex, memberMessageIndex}, ActionRewrite: {memberBodyIndex}, ActionRoute: {memberModelIndex},
}

// ParseDecision parses an answer. It accepts only the format described in README.md. An answer is
// invalid if it contains an unknown member, a member that belongs to another action, or an invalid
// value. If ParseDecision ignored such mistakes, it might admit a call that the hook meant to
// reject. If the answer is valid, the AnswerMistake is empty. It never contains text from the
// answer, which may quote a prompt.
func ParseDecision(answer []byte) (Decision, AnswerMistake) {
	var doc jsonx.Doc
	if doc.Parse(answer, jsonx.Options{Record: 1}) != nil {
		return Decision{}, MistakeNotJSON
	}
	root := doc.Root()
	var members [memberCount]jsonx.Value
	if !root.IsObject() {
		return Decision{}, MistakeNotAnObject
	}
	if err := root.Fields(memberNames, members[:]); err != nil {
		if other, ok := errors.AsType[*jsonx.MemberError](err); ok && other.Problem == jsonx.CaseVariant {
			return Decision{}, MistakeWrongCase
		}
		return Decision{}, MistakeMemberTwice
	}
	word, ok := stringValue(members[memberActionIndex])
	if !ok {
		return Decision{}, MistakeNoAction
	}
	action := slices.Index(actionNames[:], word)
	if action < 0 {
		return Decision{}, MistakeUnknownAction
	}
	d := Decision{Action: Action(action)}
	given := 1
	for _, m := range actionMembers[action] {
		if members[m].Exists() {
			given++
		}
	}
	if root.Len() != given {
		return Decision{}, MistakeOtherMember
	}
	if wrong := d.readMembers(&members); wrong != "" {
		return Decision{}, wrong
	}
	return d, ""
}

func (d *Decision) readMembers(members *[memberCount]jsonx.Value) AnswerMistake {
	switch d.Action {
	case ActionRefuse:
		return d.readRefusal(members[memberStatusIndex], members[memberMessageIndex])
	case ActionRewrite:
		if !members[memberBodyIndex].IsObject() {
			return MistakeBody
		}
		d.Body = members[memberBodyIndex].Raw()
	case ActionRoute:
		model, ok := stringValue(members[memberModelIndex])
		if !ok || !config.CanBeModelID(model) {
			return MistakeModel
		}
		d.Model = model
	default:
	}
	return ""
}

func (d *Decision) readRefusal(status, message jsonx.Value) AnswerMistake {
	d.Status, d.Message = defaultStatus, defaultMessage
	if status.Exists() {
		n, ok := status.Int()
		if !ok || !slices.Contains(AllowedStatuses(), int(n)) {
			return MistakeStatusOutOfRange
		}
		d.Status = int(n)
	}
	if message.Exists() {
		text, ok := stringValue(message)
		if !ok || text == "" || len(text) > maxRefusalMessage {
			return MistakeMessage
		}
		d.Message = text
	}
	return ""
}

func stringValue(v jsonx.Value) (text string, ok bool) {
	if !v.IsString() {
		return "", false
	}
	return string(v.AppendText(nil)), true
}
