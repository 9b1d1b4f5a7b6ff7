#!/bin/sh
# Tells the linkhold agent of the silences that hostapd knows. Run it as hostapd_cli's action script:
#   hostapd_cli -i wlan0 -a /usr/libexec/linkhold/hostapd-hook.sh
# hostapd_cli calls it with the interface and the event, as in: wlan0 DFS-RADAR-DETECTED freq=5260 ...
#
# A silence that no event ends is ended by the agent after `silence.max`. If stations stay associated while a channel is
# checked for radar (60 s, on some channels 600 s), set `silence.max` above that time; otherwise leave it short.
linkhold=${LINKHOLD:-linkhold}

# The agent may be down, and hostapd must go on all the same.
# An interface is a radio of its own: radar on one is no silence of another. The agent refuses an interface that it does
# not manage.
radio=$1
tell() {
  "$linkhold" signal --source hostapd --radio "$radio" "$@" || true
}

case $2 in
  # Radar: the cell leaves its channel.
  DFS-RADAR-DETECTED) tell freeze --cause primary-user ;;
  # Listening before a channel may be used.
  DFS-CAC-START) tell freeze --cause sensing ;;
  DFS-CAC-COMPLETED) tell thaw --cause sensing ;;
  # The cell works (again).
  AP-CSA-FINISHED | AP-ENABLED)
    tell thaw --cause primary-user
    tell thaw --cause channel-switch
    ;;
  AP-DISABLED) tell freeze --cause channel-switch ;;
esac
