"""A silo, a device or the share server: the configuration of a node gives its folder, and the number of a silo or device."""

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from dp_personal.devices import Device
from dp_personal.flower import ShareServer, Silo

app = ClientApp()


def silo(context: Context) -> Silo:
    """The silo of this node."""
    return Silo(int(context.node_config["silo"]), str(context.node_config["folder"]))


def device(context: Context) -> Device:
    """The user's device that is this node."""
    return Device(int(context.node_config["device"]), str(context.node_config["folder"]))


def with_users(context: Context) -> Silo | Device:
    """The silo or device of this node."""
    return device(context) if "device" in context.node_config else silo(context)


def share_server(context: Context) -> ShareServer:
    """The share server, on a node without users. It must be operated by others than the server."""
    return ShareServer(str(context.node_config["folder"]))


def reply(message: Message, answer: dict) -> Message:
    """An answer to a message of the server."""
    return Message(RecordDict({"answer": ConfigRecord(answer)}), reply_to=message)


@app.query("silo")
def number(message: Message, context: Context) -> Message:
    """The number of this silo or device, or that of the share server."""
    has_users = {"silo", "device"} & set(context.node_config)
    node = with_users(context) if has_users else share_server(context)
    return reply(message, {"silo": node.number})


@app.query("sum")
def silo_sum(message: Message, context: Context) -> Message:
    """The silo's sum for the next release, in shares if its policy demands it."""
    return reply(message, silo(context).sum(message.content["said"]))


@app.query("shares")
def sum_of_shares(message: Message, context: Context) -> Message:
    """The sum of all silos' shares, at the share server."""
    return reply(message, share_server(context).total(message.content["said"]))


@app.query("round")
def device_round(message: Message, context: Context) -> Message:
    """The device's update for a round, if it is asked."""
    return reply(message, device(context).round(message.content["said"]))


@app.query("examples")
def device_examples(message: Message, context: Context) -> Message:
    """The user's vector and examples, once for each run."""
    return reply(message, device(context).examples(message.content["said"]))


@app.query("model")
def model(message: Message, context: Context) -> Message:
    """The released model, which users combine with their own records locally."""
    with_users(context).take(message.content["said"])
    return reply(message, {"body": b""})
