package hook

import "penstock/upstreams"

// AnswerMistake is the kind of mistake in a hook's answer. The log reports it to the author of the
// hook. It is empty if the answer has no mistake.
type AnswerMistake string

// These are the possible mistakes.
const (
	MistakeTooLong          AnswerMistake = "too_long"
	MistakeBreaksOff        AnswerMistake = "breaks_off"
	MistakeNotJSON          AnswerMistake = "not_json"
	MistakeNotAnObject      AnswerMistake = "not_an_object"
	MistakeMemberTwice      AnswerMistake = "member_twice"
	MistakeWrongCase        AnswerMistake = "wrong_case"
	MistakeNoAction         AnswerMistake = "no_action"
	MistakeUnknownAction    AnswerMistake = "unknown_action"
	MistakeOtherMember      AnswerMistake = "other_member"
	MistakeStatusOutOfRange AnswerMistake = "status_out_of_range"
	MistakeMessage          AnswerMistake = "bad_message"
	MistakeBody             AnswerMistake = "body_not_an_object"
	MistakeModel            AnswerMistake = "bad_model"
	MistakeStreamChanged    AnswerMistake = "stream_changed"
	MistakeUploadReplaced   AnswerMistake = "upload_replaced"
)

// AnswerMistakeInfo contains an AnswerMistake and its description for operators.
type AnswerMistakeInfo struct {
	Mistake AnswerMistake
	Clause  string // completes the error message, as in "it is too long"
	Meaning string
}

var answerMistakeInfos = []AnswerMistakeInfo{
	{MistakeTooLong, "it is too long", "The answer is longer than `limits.request_body` and 4 KiB."},
	{MistakeBreaksOff, "it breaks off", "The connection ended before the end of the answer."},
	{MistakeNotJSON, "it is not JSON", "The answer is empty, or is not a single JSON value. Is it an error page?"},
	{MistakeNotAnObject, "it is not a JSON object", "The answer is JSON, such as a text or a list, but not an object."},
	{MistakeMemberTwice, "it has a member twice", "The answer has one of its members twice, and the two might differ."},
	{MistakeWrongCase, "it has a member in capitals", "The name of a member is written with capitals, and other readers might ignore it."},
	{MistakeNoAction, "it has no action", "The member `action` is missing, or is not a text."},
	{MistakeUnknownAction, "its action is unknown", "The action is none of `allow`, `refuse`, `rewrite` and `route`, in lower case."},
	{MistakeOtherMember, "it has a member that its action does not have", "The answer has a member that is unknown, or that belongs to another action."},
	{MistakeStatusOutOfRange, "its status is not one of those allowed", "A refusal may have the status 400, 403, 422, 429 or 451, as a number."},
	{MistakeMessage, "its message is empty, too long or not a text", "The message of a refusal is a text of at most 2 KiB that is not empty."},
	{MistakeBody, "its body is not a JSON object", "A `rewrite` needs the new `body`, as an object and not as a text that holds one."},
	{MistakeModel, "its model cannot be a model's name", "A `route` needs a `model`: an id or an alias, as a text without patterns."},
	{MistakeStreamChanged, "its body changes stream", "A `rewrite` must leave `stream` as it was, because the client reads what it has asked for."},
	{MistakeUploadReplaced, "it rewrites an upload", "Uploads have no JSON, so a `rewrite` cannot replace them."},
}

// AllAnswerMistakes returns all possible mistakes with their descriptions.
func AllAnswerMistakes() []AnswerMistakeInfo { return answerMistakeInfos }

// Description returns the description of the mistake, or "" if d is unknown.
func (d AnswerMistake) Description() string {
	for _, e := range answerMistakeInfos {
		if e.Mistake == d {
			return e.Clause
		}
	}
	return ""
}

// InvalidAnswer returns the Failure for a hook whose answer contains a mistake.
func InvalidAnswer(d AnswerMistake) *Failure {
	return &Failure{Cause: upstreams.CauseHookAnswer, Detail: d}
}
