// Package responses translates between the Responses dialect, which Codex and the newer SDKs speak,
// and the chat dialect that engines speak: a request one way, a whole answer or a stream of events
// the other. Package dialects tells what it has in common with Messages.
//
// # Requests
//
//	input string            a user message
//	instructions, system,   one leading system message, in this order, joined by blank lines
//	developer               (in place: what leads the conversation; the rest where it stands)
//	text parts              a string, joined by line ends; beside images an array of parts
//	input_image             image_url; detail original becomes high
//	function_call           tool_calls of one assistant message, with the message before it;
//	                        arguments that are no JSON object are put into one
//	custom_tool_call        likewise, with {"input":"…"} as arguments
//	function_call_output    a tool message; its images in a user message behind the turn's outputs
//	compaction              a user message with the summary that is sealed in it
//	compaction_trigger      at the end: a user message that asks for a summary; no tool is called
//	reasoning               reasoning_content of the message behind it; sealed one is opened, or
//	                        left out and named in Dropped; a summary dropped
//	tools                   nested; hosted ones dropped beside functions, refused alone
//	custom tools            functions with one string, input; the grammar is in the description
//	tools of a namespace    functions with the name namespace__tool; one that is too long or taken,
//	                        or has more than letters, digits, _ and -, ends with a hash; the
//	                        first tells what the namespace says of itself
//	tool_choice             words, a function; allowed_tools becomes the tools and its mode
//	text.format             response_format, which counts where there is no text.format
//	reasoning.effort        reasoning_effort
//	max_output_tokens       max_completion_tokens
//	top_logprobs, include   top_logprobs and logprobs, those of the text alone: reasoning is not
//	                        shown (message.output_text.logprobs)
//	include                 reasoning.encrypted_content: the answer has sealed reasoning
//
// What chat has under the same name (penalties, stop, seed, top_k, min_p, logit_bias,
// chat_template_kwargs) is passed on as it stands and checked as on chat. The contract does not
// list it here, so strict refuses it.
//
// Items that only another provider runs or reads (web_search_call, mcp_call, …) are left out, and
// with a tool call its output; strict refuses them. Dropped tells what was left out.
//
// Refused, because nothing is kept from one request to the next: store, previous_response_id,
// conversation, prompt, background, generate: false, item_reference, file ids. Members that engines
// have on chat and this dialect does not (chat's token limits and logprobs, ignore_eos, what an
// operator lets through) pass. Accepted without effect: the rest of include, truncation,
// user, stream_options, client_metadata and unknown members. For the edge alone: service_tier, of
// which flex counts, and prompt_cache_key, a hint at the engine that has the prompt in its cache.
// Strict refuses all of these.
//
// # Answers
//
// The response object always has all of its members. What it repeats of the request is written
// once, when the request is translated, and kept as text; the body itself can go. Text and tool
// calls become output items in the engine's order; reasoning is not shown at all. A client
// that includes reasoning.encrypted_content carries it in items of its own, sealed (package seal),
// which say nothing but that there is some.
//
// A compaction is an answer whose text is a summary of the conversation: one item in which it is
// sealed for the key, whatever its model. In a history it is the conversation, so one that does not
// open is refused. A summary that was cut, or is none, is a bad answer.
//
// One item of a stream is open at a time: a delta goes out as it comes, but deltas of other items
// wait until the arguments of a tool call are complete. The events carry indexes, so items could
// overlap; yet clients that ignore them are common, and engines that interleave are not.
//
// A text that the engine cut is an incomplete item and makes the response incomplete. A tool call
// without arguments has "{}", since clients read arguments as JSON. Arguments that are not JSON are
// passed on as they are: the client reports them to the model like any malformed tool call.
//
// Clients measure silence by events: Codex ends a turn in which none comes for five minutes,
// whatever comments do. So a keep-alive is an event that says nothing new (Stream.Keepalive).
// Tried with Codex 0.171, openai-node 6.45 and 7.59, the AI SDK 3.0 and the Agents SDK 0.20; an
// event of another name breaks openai-node 6.45 and older SDKs for Java and PHP.
//
// # Design
//
// The translation of an item depends on it and on the items before it alone; a property test holds
// it. Only new system text, when folded, changes the first message. Two things look ahead, and both
// stay within one turn: a message of the assistant between a tool call and its output joins the
// message with the tool call, and images of outputs come behind the last output.
//
// What chat checks better is left to its decoding: the model's name, ranges, effort, images, and
// what has the same name there.
//
// An event is written straight into the output: no structure for events, no maps, no encoder. The
// bytes of a delta event differ from the last in its number and its text, so the rest is kept
// ready.
//
// The input of a custom tool leaves the arguments as they come: the text of their string, escaped
// once instead of twice. Models put it into other members, or around it a code fence, which a tool
// with a grammar cannot take; arguments that do not begin as they should are held until their end.
//
// A name that was joined is found again when the engine calls it, in the list that the request
// leaves behind: the client gets name and namespace apart, as it has to send them back. Without
// such tools there is no list.
//
// Ids of items are made of the response's id and the item's index. They are the same in every event
// and in the last response, and mean nothing to the edge when they come back in input.
package responses
