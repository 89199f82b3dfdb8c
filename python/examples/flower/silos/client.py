"""A silo: the configuration of its node gives its number and its folder."""

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from dp_personal.flower import Silo

app = ClientApp()


def silo(context: Context) -> Silo:
    """The silo of this node."""
    return Silo(int(context.node_config["silo"]), str(context.node_config["folder"]))


def reply(message: Message, answer: dict) -> Message:
    """An answer to a message of the server."""
    return Message(RecordDict({"answer": ConfigRecord(answer)}), reply_to=message)


@app.query("silo")
def number(message: Message, context: Context) -> Message:
    """The number of this silo."""
    return reply(message, {"silo": silo(context).number})


@app.query("sum")
def exact_sum(message: Message, context: Context) -> Message:
    """The silo's sum for the next release."""
    return reply(message, silo(context).sum(message.content["said"]))


@app.query("model")
def model(message: Message, context: Context) -> Message:
    """The released model, which the silo's users combine with their own records locally."""
    silo(context).take(message.content["said"])
    return reply(message, {"body": b""})
