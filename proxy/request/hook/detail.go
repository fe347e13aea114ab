package hook

import "penstock/upstreams"

// Detail is a mistake in a hook's answer, reported to the author of the hook. It is empty if the
// answer has no mistake.
type Detail string

// These are the possible mistakes.
const (
	DetailTooLong        Detail = "too_long"
	DetailBreaksOff      Detail = "breaks_off"
	DetailNotJSON        Detail = "not_json"
	DetailNotAnObject    Detail = "not_an_object"
	DetailMemberTwice    Detail = "member_twice"
	DetailWrongCase      Detail = "wrong_case"
	DetailNoAction       Detail = "no_action"
	DetailUnknownAction  Detail = "unknown_action"
	DetailOtherMember    Detail = "other_member"
	DetailStatus         Detail = "status_out_of_range"
	DetailMessage        Detail = "bad_message"
	DetailBody           Detail = "body_not_an_object"
	DetailModel          Detail = "bad_model"
	DetailStreamChanged  Detail = "stream_changed"
	DetailUploadReplaced Detail = "upload_replaced"
)

// DetailInfo contains a Detail and its description for operators.
type DetailInfo struct {
	Detail  Detail
	Words   string // text that completes a sentence
	Meaning string
}

var detailInfos = []DetailInfo{
	{DetailTooLong, "it is too long", "The answer is longer than `limits.request_body` and 4 KiB."},
	{DetailBreaksOff, "it breaks off", "The connection ended before the end of the answer."},
	{DetailNotJSON, "it is not JSON", "The answer is empty, or is not a single JSON value. Is it an error page?"},
	{DetailNotAnObject, "it is not a JSON object", "The answer is JSON, such as a text or a list, but not an object."},
	{DetailMemberTwice, "it has a member twice", "The answer has one of its members twice, and the two might differ."},
	{DetailWrongCase, "it has a member in capitals", "The name of a member is written with capitals, and other readers might ignore it."},
	{DetailNoAction, "it has no action", "The member `action` is missing, or is not a text."},
	{DetailUnknownAction, "its action is unknown", "The action is none of `allow`, `refuse`, `rewrite` and `route`, in lower case."},
	{DetailOtherMember, "it has a member that its action does not have", "The answer has a member that is unknown, or that belongs to another action."},
	{DetailStatus, "its status is not one of those allowed", "A refusal may have the status 400, 403, 422, 429 or 451, as a number."},
	{DetailMessage, "its message is empty, too long or not a text", "The message of a refusal is a text of at most 2 KiB that is not empty."},
	{DetailBody, "its body is not a JSON object", "A `rewrite` needs the new `body`, as an object and not as a text that holds one."},
	{DetailModel, "its model cannot be a model's name", "A `route` needs a `model`: an id or an alias, as a text without patterns."},
	{DetailStreamChanged, "its body changes stream", "A `rewrite` must leave `stream` as it was, because the client reads what it has asked for."},
	{DetailUploadReplaced, "it rewrites an upload", "Uploads have no JSON, so a `rewrite` cannot replace them."},
}

// AllDetails returns all possible Details with their text.
func AllDetails() []DetailInfo { return detailInfos }

// Description returns the text of the Detail. If the Detail is unknown, it returns "".
func (d Detail) Description() string {
	for _, e := range detailInfos {
		if e.Detail == d {
			return e.Words
		}
	}
	return ""
}

// InvalidAnswer returns the Failure for a hook whose answer contains a mistake.
func InvalidAnswer(d Detail) *Failure { return &Failure{Cause: upstreams.CauseHookAnswer, Detail: d} }
